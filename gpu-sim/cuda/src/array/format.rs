//! Sizes of array formats.

use cuda_headers::driver::{CUarray_format as Format, CUresult};

/// What is stored together: one element, or a square of a compressed format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) bytes: usize,
    /// Elements along each side.
    pub(super) side: usize,
}

/// Bits per channel times channels. Video formats are not supported.
pub(super) fn block(format: Format, channels: u32) -> Result<Block, CUresult> {
    let element = |bytes: usize| {
        let count = usize::try_from(channels)
            .ok()
            .filter(|count| matches!(count, 1 | 2 | 4));
        let count = count.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(Block {
            bytes: bytes * count,
            side: 1,
        })
    };
    match format {
        Format::CU_AD_FORMAT_UNSIGNED_INT8 | Format::CU_AD_FORMAT_SIGNED_INT8 => element(1),
        Format::CU_AD_FORMAT_UNSIGNED_INT16
        | Format::CU_AD_FORMAT_SIGNED_INT16
        | Format::CU_AD_FORMAT_HALF => element(2),
        Format::CU_AD_FORMAT_UNSIGNED_INT32
        | Format::CU_AD_FORMAT_SIGNED_INT32
        | Format::CU_AD_FORMAT_FLOAT => element(4),
        // The normalised formats say their number of channels themselves.
        Format(0xc0 | 0xc6) => Ok(Block { bytes: 1, side: 1 }),
        Format(0xc1 | 0xc3 | 0xc7 | 0xc9) => Ok(Block { bytes: 2, side: 1 }),
        Format(0xc2 | 0xc4 | 0xc8 | 0xca | 0x50) => Ok(Block { bytes: 4, side: 1 }),
        Format(0xc5 | 0xcb) => Ok(Block { bytes: 8, side: 1 }),
        // BC1 and BC4: eight bytes for a square of four by four; the others sixteen.
        Format(0x91 | 0x92 | 0x97 | 0x98) => Ok(Block { bytes: 8, side: 4 }),
        Format(0x93..=0x96 | 0x99..=0x9e) => Ok(Block { bytes: 16, side: 4 }),
        Format(0xb0 | 0x9f..=0xb5 | 0x51..=0x5e) => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_times_channels() {
        let bytes = |format, channels| block(format, channels).map(|block| block.bytes);
        assert_eq!(bytes(Format::CU_AD_FORMAT_FLOAT, 4), Ok(16));
        assert_eq!(bytes(Format::CU_AD_FORMAT_HALF, 2), Ok(4));
        assert_eq!(bytes(Format::CU_AD_FORMAT_UNSIGNED_INT8, 1), Ok(1));
        let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(bytes(Format::CU_AD_FORMAT_FLOAT, 3), invalid);
        assert_eq!(bytes(Format(0x7f), 1), invalid);
    }
}
