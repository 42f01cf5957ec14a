//! Writes an image as a cubin: what the linker hands out. It holds what the reader reads, and no
//! code.

use crate::module::function::Function;
use crate::module::image::{Global, Image};

/// Present where the image's built-in kernels are to be carried out by the simulator.
pub(super) const BUILTINS_SECTION: &str = ".gpu_sim.builtins";

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOBITS: u32 = 8;
const SHT_CUDA_INFO: u32 = 0x7000_0000;
const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
const GLOBAL_OBJECT: u8 = 0x11;
const GLOBAL_FUNC: u8 = 0x12;
const STO_CUDA_ENTRY: u8 = 0x10;
const SECTION_HEADER: usize = 64;
const FILE_HEADER: usize = 64;

struct Section {
    name: String,
    kind: u32,
    flags: u64,
    bytes: Vec<u8>,
    /// Size of a section without bytes.
    size: usize,
    link: u32,
    align: usize,
    entry: usize,
}

impl Section {
    fn new(name: impl Into<String>, kind: u32, bytes: Vec<u8>) -> Self {
        let size = bytes.len();
        let entry = if kind == SHT_SYMTAB { 24 } else { 0 };
        Self {
            name: name.into(),
            kind,
            flags: 0,
            bytes,
            size,
            link: 0,
            align: 8,
            entry,
        }
    }
}

#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len();
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        small(at)
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn put(bytes: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// One attribute with a payload.
fn attribute(bytes: &mut Vec<u8>, number: u8, words: &[u32]) {
    bytes.extend_from_slice(&[4, number]);
    bytes.extend_from_slice(&u16::try_from(words.len() * 4).unwrap_or(0).to_le_bytes());
    put(bytes, words);
}

fn symbol(bytes: &mut Vec<u8>, name: u32, kind: (u8, u8), section: usize, size: usize) {
    put(bytes, &[name]);
    bytes.extend_from_slice(&[kind.0, kind.1]);
    bytes.extend_from_slice(&u16::try_from(section).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&0_u64.to_le_bytes());
    bytes.extend_from_slice(&(size as u64).to_le_bytes());
}

fn info(function: &Function) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (ordinal, param) in function.params.iter().enumerate() {
        let place = small(ordinal) | small(param.offset) << 16;
        attribute(
            &mut bytes,
            0x17,
            &[0, place, small(param.size) << 18 | 0x1f000],
        );
    }
    attribute(&mut bytes, 0x05, &[function.max_threads, 1, 1]);
    if let Some(block) = function.required_block {
        attribute(&mut bytes, 0x10, &block);
    }
    bytes
}

fn variable(global: &Global, index: usize) -> Section {
    let space = if global.constant {
        ".nv.constant3"
    } else {
        ".nv.global"
    };
    let filled = global.constant || !global.init.is_empty();
    let mut bytes = global.init.clone();
    bytes.resize(global.size, 0);
    let kind = if filled { SHT_PROGBITS } else { SHT_NOBITS };
    let mut section = Section::new(format!("{space}.{index}"), kind, Vec::new());
    if filled {
        section.bytes = bytes;
    }
    section.size = global.size;
    section.align = global.align;
    section.flags = SHF_ALLOC | if global.constant { 0 } else { SHF_WRITE };
    section
}

/// The image as an ELF file for an architecture.
pub(super) fn cubin(image: &Image, sm: u32) -> Vec<u8> {
    let mut names = Strings::default();
    let mut sections = vec![
        Section::new("", 0, Vec::new()),
        Section::new(".shstrtab", SHT_STRTAB, Vec::new()),
        Section::new(".strtab", SHT_STRTAB, Vec::new()),
        Section::new(".symtab", SHT_SYMTAB, Vec::new()),
        Section::new(".nv.info", SHT_CUDA_INFO, Vec::new()),
    ];
    let (mut symbols, mut whole) = (Vec::new(), Vec::new());
    symbol(&mut symbols, 0, (0, 0), 0, 0);
    for (index, function) in image.functions.iter().enumerate() {
        let name = &function.name;
        symbol(
            &mut symbols,
            names.add(name),
            (GLOBAL_FUNC, STO_CUDA_ENTRY),
            sections.len(),
            16,
        );
        attribute(&mut whole, 0x2f, &[small(index + 1), function.registers]);
        attribute(&mut whole, 0x11, &[small(index + 1), function.local]);
        sections.push(Section::new(
            format!(".text.{name}"),
            SHT_PROGBITS,
            vec![0; 16],
        ));
        sections.push(Section::new(
            format!(".nv.info.{name}"),
            SHT_CUDA_INFO,
            info(function),
        ));
        let mut shared = Section::new(format!(".nv.shared.{name}"), SHT_NOBITS, Vec::new());
        shared.size = function.static_shared as usize;
        sections.push(shared);
    }
    for (index, global) in image.globals.iter().enumerate() {
        let section = sections.len();
        symbol(
            &mut symbols,
            names.add(&global.name),
            (GLOBAL_OBJECT, 0),
            section,
            global.size,
        );
        sections.push(variable(global, index));
    }
    if image.functions.iter().any(|f| f.builtin.is_some()) {
        sections.push(Section::new(BUILTINS_SECTION, SHT_PROGBITS, vec![1]));
    }
    if names.0.is_empty() {
        names.0.push(0);
    }
    for (index, bytes, link) in [(2, names.0, 0), (3, symbols, 2), (4, whole, 3)] {
        if let Some(section) = sections.get_mut(index) {
            (section.size, section.bytes, section.link) = (bytes.len(), bytes, link);
        }
    }
    assemble(sections, sm)
}

fn assemble(mut sections: Vec<Section>, sm: u32) -> Vec<u8> {
    let mut titles = Strings::default();
    let offsets: Vec<u32> = sections.iter().map(|s| titles.add(&s.name)).collect();
    if let Some(table) = sections.get_mut(1) {
        (table.size, table.bytes) = (titles.0.len(), titles.0);
    }
    let mut body = vec![0; FILE_HEADER];
    let mut headers = Vec::new();
    for (section, title) in sections.iter().zip(offsets) {
        body.resize(body.len().next_multiple_of(section.align.max(1)), 0);
        put(&mut headers, &[title, section.kind]);
        let numbers = [section.flags, 0, body.len() as u64, section.size as u64];
        numbers
            .iter()
            .for_each(|n| headers.extend_from_slice(&n.to_le_bytes()));
        put(&mut headers, &[section.link, 0]);
        let numbers = [section.align as u64, section.entry as u64];
        numbers
            .iter()
            .for_each(|n| headers.extend_from_slice(&n.to_le_bytes()));
        body.extend_from_slice(&section.bytes);
    }
    body.resize(body.len().next_multiple_of(8), 0);
    let table = body.len() as u64;
    body.extend_from_slice(&headers);

    let half = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let mut header = b"\x7fELF\x02\x01\x01\x41\x08\0\0\0\0\0\0\0".to_vec();
    [2_u16, 190]
        .iter()
        .for_each(|n| header.extend_from_slice(&n.to_le_bytes()));
    put(&mut header, &[1]);
    [0, 0, table]
        .iter()
        .for_each(|n: &u64| header.extend_from_slice(&n.to_le_bytes()));
    put(&mut header, &[sm << 8]);
    let tail = [
        half(FILE_HEADER),
        56,
        0,
        half(SECTION_HEADER),
        half(sections.len()),
        1,
    ];
    tail.iter()
        .for_each(|n| header.extend_from_slice(&n.to_le_bytes()));
    if let Some(start) = body.get_mut(..header.len()) {
        start.copy_from_slice(&header);
    }
    body
}

#[cfg(test)]
mod tests;
