//! Fat binaries: containers of cubins and PTX for several architectures. The best fit for the
//! device is taken, as the driver does: the newest cubin that runs on it, else the newest PTX.

use std::borrow::Cow;

use ruzstd::decoding::StreamingDecoder;

use crate::module::image::{Image, ImageError, Target};
use crate::module::{cubin, lz4, ptx};

/// First word of a fat binary.
pub(crate) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
/// First word of the small struct that compilers put beside it: (magic, version, pointer, name).
pub(crate) const WRAPPER_MAGIC: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
/// Bytes of the container's header.
pub(crate) const HEADER: usize = 16;

const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
const ENTRY_HEADER: usize = 64;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// No image of one architecture is larger; more is a corrupt header.
const MAX_UNPACKED: u64 = 4 << 30;

struct Entry<'a> {
    kind: u16,
    sm: u32,
    flags: u64,
    unpacked: u64,
    payload: &'a [u8],
}

/// Length of the container that begins with these bytes.
pub(crate) fn length(header: &[u8]) -> Option<usize> {
    let head = usize::from(u16::from_le_bytes(header.get(6..8)?.try_into().ok()?));
    let body = u64::from_le_bytes(header.get(8..16)?.try_into().ok()?);
    usize::try_from(body).ok()?.checked_add(head.max(HEADER))
}

fn entries(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let end = length(bytes)?.min(bytes.len());
    let mut at = usize::from(half(6)?);
    let mut found = Vec::new();
    while at.checked_add(ENTRY_HEADER)? <= end {
        let header = usize::try_from(word(at + 4)?).ok()?;
        let padded = usize::try_from(long(at + 8)?).ok()?;
        let packed = usize::try_from(word(at + 16)?).ok()?;
        let flags = long(at + 40)?;
        let start = at.checked_add(header.max(ENTRY_HEADER))?;
        let stored = if flags & (FLAG_LZ4 | FLAG_ZSTD) != 0 {
            packed
        } else {
            padded
        };
        found.push(Entry {
            kind: half(at)?,
            sm: word(at + 28)?,
            flags,
            unpacked: long(at + 56)?,
            payload: bytes.get(start..start.checked_add(stored)?)?,
        });
        at = start.checked_add(padded)?;
    }
    Some(found)
}

fn unpack<'a>(entry: &Entry<'a>) -> Result<Cow<'a, [u8]>, ImageError> {
    let broken = |what: &str| ImageError::Invalid(format!("a fat binary whose {what}"));
    if entry.flags & (FLAG_LZ4 | FLAG_ZSTD) == 0 {
        return Ok(Cow::Borrowed(entry.payload));
    }
    if entry.unpacked > MAX_UNPACKED {
        return Err(broken("entry claims more than 4 GiB"));
    }
    let size = usize::try_from(entry.unpacked).map_err(|_| broken("entry is too large"))?;
    if entry.flags & FLAG_LZ4 != 0 {
        return lz4::unpack(entry.payload, size)
            .map(Cow::Owned)
            .ok_or_else(|| broken("LZ4 entry is corrupt"));
    }
    let mut bytes = Vec::with_capacity(size);
    let mut payload = entry.payload;
    StreamingDecoder::new(&mut payload)
        .ok()
        .and_then(|mut decoder| std::io::Read::read_to_end(&mut decoder, &mut bytes).ok())
        .ok_or_else(|| broken("Zstandard entry is corrupt"))?;
    Ok(Cow::Owned(bytes))
}

/// Reads the entry that the device would run.
pub(crate) fn parse(bytes: &[u8], target: Target) -> Result<Image, ImageError> {
    let entries = entries(bytes)
        .ok_or_else(|| ImageError::Invalid("a fat binary that is cut short".into()))?;
    let best = |kind: u16, fits: &dyn Fn(u32) -> bool| {
        entries
            .iter()
            .filter(|e| e.kind == kind && fits(e.sm))
            .max_by_key(|e| e.sm)
    };
    if let Some(elf) = best(KIND_ELF, &|sm| cubin::runs_on(sm, target.sm)) {
        return cubin::parse(&unpack(elf)?, target);
    }
    if let Some(text) = best(KIND_PTX, &|sm| sm <= target.sm) {
        return ptx::parse_bytes(&unpack(text)?, target);
    }
    let held: Vec<String> = entries.iter().map(|e| format!("sm_{}", e.sm)).collect();
    Err(ImageError::NoBinary(format!(
        "a fat binary for {}; this device is sm_{}",
        if held.is_empty() {
            "nothing".to_owned()
        } else {
            held.join(", ")
        },
        target.sm
    )))
}
