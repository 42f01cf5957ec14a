//! Cubins: NVIDIA's ELF files, as far as their public structure tells names, parameters and
//! variables (`readelf` and `cuobjdump` show the same).

use crate::module::elf::{Section, Symbol, sections, symbols, u16_at, u32_at};
use crate::module::function::{Builtin, Function, Param};
use crate::module::image::{Global, Image, ImageError, Target};
use crate::module::writer::BUILTINS_SECTION;

const EM_CUDA: u16 = 190;
const SHF_WRITE: u64 = 1;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
/// `st_other` bit of a kernel, as opposed to a device function.
const STO_CUDA_ENTRY: u8 = 0x10;
/// Attributes in `.nv.info` sections.
const EIATTR_MAX_THREADS: u8 = 0x05;
const EIATTR_REQNTID: u8 = 0x10;
const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_KPARAM_INFO: u8 = 0x17;
const EIATTR_REGCOUNT: u8 = 0x2f;
/// Attribute format: a length and that many bytes follow.
const EIFMT_SVAL: u8 = 4;
/// What the toolchain keeps of every block's shared memory from compute capability 8.0 on.
const RESERVED_SHARED: u64 = 1024;
/// A kernel without a declared bound may have what every device allows.
const MAX_THREADS: u32 = 1024;
/// No variable needs more.
const MAX_ALIGN: usize = 4096;

/// The (attribute, payload) pairs of a `.nv.info` section that carry a payload.
fn attributes(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [format, attribute, rest @ ..] = bytes {
        let Some(value) = u16_at(rest, 0) else { break };
        let mut next = rest.get(2..).unwrap_or_default();
        if *format == EIFMT_SVAL {
            let Some(payload) = next.get(..usize::from(value)) else {
                break;
            };
            found.push((*attribute, payload));
            next = next.get(usize::from(value)..).unwrap_or_default();
        }
        bytes = next;
    }
    found
}

fn param(payload: &[u8]) -> Option<(u16, Param)> {
    // index (u32), ordinal (u16), offset (u16), and a word whose top 14 bits are the size.
    let packed = u32_at(payload, 8)?;
    Some((
        u16_at(payload, 4)?,
        Param {
            offset: usize::from(u16_at(payload, 6)?),
            size: usize::try_from(packed >> 18).ok()?,
        },
    ))
}

fn three(payload: &[u8]) -> Option<[u32; 3]> {
    Some([
        u32_at(payload, 0)?,
        u32_at(payload, 4)?,
        u32_at(payload, 8)?,
    ])
}

/// Compute capability x 10. ABI version 8 moved it up one byte in the flags.
fn architecture(bytes: &[u8]) -> Option<u32> {
    let (abi, flags) = (*bytes.get(8)?, u32_at(bytes, 48)?);
    Some(if abi >= 8 {
        (flags >> 8) & 0xff
    } else {
        flags & 0xff
    })
}

/// Whether code for `sm` runs on a device of capability `device`: same major, minor not above.
pub(crate) fn runs_on(sm: u32, device: u32) -> bool {
    sm / 10 == device / 10 && sm % 10 <= device % 10
}

/// Reads a cubin.
pub(crate) fn parse(bytes: &[u8], target: Target) -> Result<Image, ImageError> {
    let broken = || ImageError::Invalid("an ELF file whose tables make no sense".into());
    if u16_at(bytes, 18) != Some(EM_CUDA) || bytes.get(4) != Some(&2) {
        return Err(ImageError::Invalid("an ELF file, but not for a GPU".into()));
    }
    let sm = architecture(bytes).ok_or_else(broken)?;
    if !runs_on(sm, target.sm) {
        return Err(ImageError::NoBinary(format!(
            "a cubin for sm_{sm}; this device is sm_{}",
            target.sm
        )));
    }
    read(bytes, sm).ok_or_else(broken)
}

fn read(bytes: &[u8], sm: u32) -> Option<Image> {
    let sections = sections(bytes)?;
    let symbols = symbols(&sections)?;
    let reserves = sections
        .iter()
        .any(|s| s.name.starts_with(".nv.shared.reserved"));
    let by_symbol = per_symbol(&sections);
    let mut image = Image::default();
    for (index, symbol) in symbols.iter().enumerate() {
        match symbol.kind {
            STT_FUNC if symbol.section != 0 && symbol.other & STO_CUDA_ENTRY != 0 => {
                let about = by_symbol.iter().filter(|(i, ..)| *i == index);
                image
                    .functions
                    .push(kernel(symbol, &sections, about, sm, reserves));
            }
            STT_OBJECT if symbol.section != 0 => {
                let section = sections.get(symbol.section)?;
                image.globals.extend(variable(symbol, section));
            }
            _ => {}
        }
    }
    if sections.iter().any(|s| s.name == BUILTINS_SECTION) {
        for function in &mut image.functions {
            function.builtin = Builtin::recognise(&function.name, &function.params);
        }
    }
    image.code_bytes = sections
        .iter()
        .filter(|s| s.name.starts_with(".text") || s.name.starts_with(".nv.constant"))
        .map(|s| s.bytes.len())
        .sum();
    Some(image)
}

/// Attributes of the file-wide `.nv.info`: (symbol index, attribute, value).
fn per_symbol(sections: &[Section<'_>]) -> Vec<(usize, u8, u32)> {
    let whole = sections.iter().find(|s| s.name == ".nv.info");
    whole
        .map(|s| attributes(s.bytes))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(attribute, payload)| {
            let index = usize::try_from(u32_at(payload, 0)?).ok()?;
            Some((index, attribute, u32_at(payload, 4)?))
        })
        .collect()
}

fn kernel<'a>(
    symbol: &Symbol<'_>,
    sections: &[Section<'_>],
    about: impl Iterator<Item = &'a (usize, u8, u32)>,
    sm: u32,
    reserves: bool,
) -> Function {
    let named = |prefix: &str| {
        sections.iter().find(|s| {
            s.name
                .strip_prefix(prefix)
                .is_some_and(|n| n == symbol.name)
        })
    };
    let mut params = Vec::new();
    let mut function = Function {
        name: symbol.name.to_owned(),
        params: Vec::new(),
        max_threads: MAX_THREADS,
        required_block: None,
        static_shared: 0,
        local: 0,
        registers: 32,
        ptx_version: sm,
        binary_version: sm,
        builtin: None,
    };
    let info = named(".nv.info.")
        .map(|s| attributes(s.bytes))
        .unwrap_or_default();
    for (attribute, payload) in info {
        match attribute {
            EIATTR_KPARAM_INFO => params.extend(param(payload)),
            EIATTR_MAX_THREADS => {
                if let Some([x, y, z]) = three(payload) {
                    function.max_threads = x.saturating_mul(y).saturating_mul(z).min(MAX_THREADS);
                }
            }
            EIATTR_REQNTID => function.required_block = three(payload),
            _ => {}
        }
    }
    for (_, attribute, value) in about {
        match *attribute {
            EIATTR_REGCOUNT => function.registers = *value,
            EIATTR_FRAME_SIZE => function.local = *value,
            _ => {}
        }
    }
    params.sort_by_key(|(ordinal, _)| *ordinal);
    function.params = params.into_iter().map(|(_, param)| param).collect();
    if let Some([x, y, z]) = function.required_block {
        function.max_threads = x.saturating_mul(y).saturating_mul(z);
    }
    if let Some(shared) = named(".nv.shared.") {
        let size = shared
            .size
            .saturating_sub(if reserves { RESERVED_SHARED } else { 0 });
        function.static_shared = u32::try_from(size).unwrap_or(u32::MAX);
    }
    function
}

fn variable(symbol: &Symbol<'_>, section: &Section<'_>) -> Option<Global> {
    let constant = section.name.starts_with(".nv.constant3");
    let global = section.name.starts_with(".nv.global") && section.flags & SHF_WRITE != 0;
    if symbol.name.is_empty() || !(constant || global) {
        return None;
    }
    let init = section
        .bytes
        .get(symbol.value..symbol.value.checked_add(symbol.size)?);
    Some(Global {
        name: symbol.name.to_owned(),
        size: symbol.size,
        align: section.align.min(MAX_ALIGN),
        init: init.map(<[u8]>::to_vec).unwrap_or_default(),
        managed: false,
        constant,
    })
}
