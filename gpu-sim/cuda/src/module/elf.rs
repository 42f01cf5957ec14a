//! ELF files of 64 bits, as far as their sections and symbols go.

pub(crate) const MAGIC: &[u8] = b"\x7fELF";
const HEADER: usize = 64;
const SHT_NOBITS: u32 = 8;
const SHT_SYMTAB: u32 = 2;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

/// Length of the ELF file at `image`, from its own tables.
///
/// # Safety
/// `image` points to an ELF file: its header, and the tables that the header describes, can be read.
pub(crate) unsafe fn length(image: *const u8) -> Option<usize> {
    // SAFETY: every ELF64 file begins with a header of 64 bytes.
    let header = unsafe { std::slice::from_raw_parts(image, HEADER) };
    let (phoff, shoff) = (size_at(header, 32)?, size_at(header, 40)?);
    let programs = usize::from(u16_at(header, 54)?) * usize::from(u16_at(header, 56)?);
    let entry = usize::from(u16_at(header, 58)?);
    let count = usize::from(u16_at(header, 60)?);
    let table_end = shoff.checked_add(entry.checked_mul(count)?)?;
    let mut end = table_end.max(phoff.checked_add(programs)?).max(HEADER);
    if count > 0 && entry >= 64 {
        // SAFETY: the header says that its section table ends there.
        let bytes = unsafe { std::slice::from_raw_parts(image, table_end) };
        for i in 0..count {
            let at = shoff + i * entry;
            if u32_at(bytes, at + 4)? != SHT_NOBITS {
                end = end.max(size_at(bytes, at + 24)?.checked_add(size_at(bytes, at + 32)?)?);
            }
        }
    }
    Some(end)
}

pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) size: u64,
    pub(super) align: usize,
    pub(super) link: usize,
    pub(super) entry: usize,
    pub(super) bytes: &'a [u8],
}

fn text_at(table: &[u8], at: u32) -> Option<&str> {
    let tail = table.get(usize::try_from(at).ok()?..)?;
    let end = tail.iter().position(|b| *b == 0)?;
    std::str::from_utf8(tail.get(..end)?).ok()
}

pub(super) fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    let (shoff, entry) = (size_at(bytes, 40)?, usize::from(u16_at(bytes, 58)?));
    let (count, names) = (
        usize::from(u16_at(bytes, 60)?),
        usize::from(u16_at(bytes, 62)?),
    );
    let header = |i: usize| bytes.get(shoff.checked_add(i.checked_mul(entry)?)?..);
    let body = |head: &[u8]| -> Option<&[u8]> {
        if u32_at(head, 4)? == SHT_NOBITS {
            return Some(&[]);
        }
        let at = size_at(head, 24)?;
        bytes.get(at..at.checked_add(size_at(head, 32)?)?)
    };
    let name_table = body(header(names)?)?;
    (0..count)
        .map(|i| {
            let head = header(i)?;
            Some(Section {
                name: text_at(name_table, u32_at(head, 0)?)?,
                kind: u32_at(head, 4)?,
                flags: u64_at(head, 8)?,
                size: u64_at(head, 32)?,
                link: usize::try_from(u32_at(head, 40)?).ok()?,
                align: size_at(head, 48)?.max(1),
                entry: size_at(head, 56)?,
                bytes: body(head)?,
            })
        })
        .collect()
}

pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u8,
    pub(super) other: u8,
    pub(super) section: usize,
    pub(super) value: usize,
    pub(super) size: usize,
}

pub(super) fn symbols<'a>(sections: &[Section<'a>]) -> Option<Vec<Symbol<'a>>> {
    let Some(table) = sections.iter().find(|s| s.kind == SHT_SYMTAB) else {
        return Some(Vec::new());
    };
    let names = sections.get(table.link)?.bytes;
    table
        .bytes
        .chunks_exact(table.entry.max(24))
        .map(|entry| {
            Some(Symbol {
                name: text_at(names, u32_at(entry, 0)?)?,
                kind: entry.get(4)? & 0xf,
                other: *entry.get(5)?,
                section: usize::from(u16_at(entry, 6)?),
                value: size_at(entry, 8)?,
                size: size_at(entry, 16)?,
            })
        })
        .collect()
}
