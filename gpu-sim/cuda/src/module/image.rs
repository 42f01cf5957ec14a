//! An image as a program hands it over: PTX text, a cubin (ELF), or a fat binary of both.

use crate::module::function::Function;
use crate::module::{cubin, elf, fatbin, ptx};

/// A variable of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Global {
    /// Its (mangled) name.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: usize,
    /// Required alignment.
    pub(crate) align: usize,
    /// Initial bytes, where they are few enough to be told from the image; else zero.
    pub(crate) init: Vec<u8>,
    /// `__managed__`.
    pub(crate) managed: bool,
    /// In constant memory (does not count as device memory of its own).
    pub(crate) constant: bool,
}

/// What an image holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// Kernels in the image's order.
    pub(crate) functions: Vec<Function>,
    /// Variables.
    pub(crate) globals: Vec<Global>,
    /// Names of texture and surface references.
    pub(crate) references: Vec<String>,
    /// Bytes of code, as far as the simulator charges for it.
    pub(crate) code_bytes: usize,
}

/// Why an image is refused, as the driver would put it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageError {
    /// Not an image at all, or cut short.
    Invalid(String),
    /// PTX that does not parse.
    InvalidPtx(String),
    /// PTX of a newer ISA than this driver knows.
    UnsupportedPtx(String),
    /// Nothing in it fits this device.
    NoBinary(String),
}

/// The device and driver an image is loaded for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Compute capability x 10.
    pub(crate) sm: u32,
    /// The driver's CUDA version (13000 for 13.0).
    pub(crate) driver: i32,
}

/// Reads an image whose length is known.
pub(crate) fn parse(bytes: &[u8], target: Target) -> Result<Image, ImageError> {
    if bytes.starts_with(elf::MAGIC) {
        return cubin::parse(bytes, target);
    }
    if bytes.starts_with(&fatbin::MAGIC) {
        return fatbin::parse(bytes, target);
    }
    ptx::parse_bytes(bytes, target)
}

/// Reads an image of which only the address is known, as `cuModuleLoadData` gets it.
///
/// # Safety
/// `image` points to a readable image: an ELF file, a fat binary (or its wrapper), or
/// NUL-terminated text.
pub(crate) unsafe fn parse_at(image: *const u8, target: Target) -> Result<Image, ImageError> {
    // SAFETY: the caller vouches for a readable image; each reader stays inside the length that
    // the image's own header (or terminator) gives.
    unsafe {
        let bytes = bytes_at(image)?;
        parse(bytes, target)
    }
}

/// The bytes of an image of which only the address is known.
///
/// # Safety
/// As [`parse_at`].
pub(crate) unsafe fn bytes_at<'a>(image: *const u8) -> Result<&'a [u8], ImageError> {
    // SAFETY: an image of any kind has at least four readable bytes or a NUL before them; they
    // are looked at one by one, so that a short text is not overrun.
    let starts = |magic: &[u8]| unsafe {
        magic
            .iter()
            .enumerate()
            .all(|(i, byte)| *image.add(i) == *byte)
    };
    if starts(&fatbin::WRAPPER_MAGIC) {
        // SAFETY: the wrapper is a struct of two words and a pointer to the fat binary; the
        // pointer may be unaligned in a packed image.
        let inner = unsafe { image.add(8).cast::<*const u8>().read_unaligned() };
        if inner.is_null() {
            return Err(ImageError::Invalid(
                "a fat binary wrapper without a fat binary".into(),
            ));
        }
        // SAFETY: as above, for the image that the wrapper names. Wrappers do not nest.
        return unsafe { bytes_at(inner) };
    }
    let len = if starts(&fatbin::MAGIC) {
        // SAFETY: 16 bytes of header follow the magic.
        fatbin::length(unsafe { std::slice::from_raw_parts(image, fatbin::HEADER) })
    } else if starts(elf::MAGIC) {
        // SAFETY: an ELF file has its 64-byte header; `elf::length` reads on only inside the
        // section table that the header describes.
        unsafe { elf::length(image) }
    } else {
        // SAFETY: text is NUL-terminated.
        Some(unsafe { std::ffi::CStr::from_ptr(image.cast()) }.count_bytes())
    };
    let len = len.ok_or_else(|| ImageError::Invalid("a header that makes no sense".into()))?;
    // SAFETY: the image says of itself that it has `len` bytes.
    Ok(unsafe { std::slice::from_raw_parts(image, len) })
}
