//! What an array's descriptor says of its size. The driver may need more: it lays arrays out in blocks.

use cuda_headers::driver::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_CUBEMAP,
    CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR_v1,
    CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_SPARSE, CUarray_format,
};

/// What decides an array's size.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(super) width: u64,
    /// 0 for one dimension.
    pub(super) height: u64,
    /// 0 for two dimensions; layers, or faces, where the flags say so.
    pub(super) depth: u64,
    pub(super) format: CUarray_format,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

/// A descriptor of any version.
pub(crate) trait Descriptor: Copy {
    fn shape(self) -> Shape;
}

macro_rules! descriptor {
    ($type:ty, $self:ident, $depth:expr, $flags:expr) => {
        impl Descriptor for $type {
            fn shape($self) -> Shape {
                Shape {
                    width: wide($self.Width),
                    height: wide($self.Height),
                    depth: wide($depth),
                    format: $self.Format,
                    channels: $self.NumChannels,
                    flags: $flags,
                }
            }
        }
    };
}

descriptor!(CUDA_ARRAY_DESCRIPTOR_v1, self, 0_u32, 0);
descriptor!(CUDA_ARRAY_DESCRIPTOR, self, 0_u32, 0);
descriptor!(CUDA_ARRAY3D_DESCRIPTOR_v1, self, self.Depth, self.Flags);
descriptor!(CUDA_ARRAY3D_DESCRIPTOR, self, self.Depth, self.Flags);

pub(super) fn wide(size: impl TryInto<u64>) -> u64 {
    size.try_into().unwrap_or(u64::MAX)
}

fn narrow(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl Shape {
    /// Whether memory comes later, by mapping.
    pub(super) fn has_no_memory(&self) -> bool {
        self.flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) != 0
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.flags & CUDA_ARRAY3D_DEFERRED_MAPPING != 0
    }

    /// The same array, to be given memory later.
    pub(super) fn deferred(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
        CUDA_ARRAY3D_DESCRIPTOR {
            Width: narrow(self.width),
            Height: narrow(self.height),
            Depth: narrow(self.depth),
            Format: self.format,
            NumChannels: self.channels,
            Flags: self.flags | CUDA_ARRAY3D_DEFERRED_MAPPING,
        }
    }

    /// Bytes of all levels, each half as large as the one before, as far as there are any.
    pub(super) fn bytes(&self, levels: u32) -> u64 {
        let longest =
            self.width
                .max(self.height)
                .max(if self.is_layered() { 0 } else { self.depth });
        let most = longest.max(1).ilog2() + 1;
        (0..levels.clamp(1, most)).fold(0, |sum: u64, level| sum.saturating_add(self.level(level)))
    }

    fn is_layered(&self) -> bool {
        self.flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) != 0
    }

    fn level(&self, level: u32) -> u64 {
        let extent = |size: u64| size.checked_shr(level).unwrap_or(0).max(1);
        let layers = if self.is_layered() {
            self.depth.max(1)
        } else {
            extent(self.depth)
        };
        let (bits, side) = element(self.format, self.channels);
        extent(self.width)
            .div_ceil(side)
            .saturating_mul(extent(self.height).div_ceil(side))
            .saturating_mul(layers)
            .saturating_mul(bits)
            .div_ceil(8)
    }
}

/// Bits of what is stored together, and how many elements along each side that is: one element, or a square of a
/// compressed format. Video formats by their bits for each pixel, all planes together; what is not known as the widest.
fn element(format: CUarray_format, channels: u32) -> (u64, u64) {
    let channels = u64::from(channels.max(1));
    match format.0 {
        0x01 | 0x08 => (8 * channels, 1),
        0x02 | 0x09 | 0x10 => (16 * channels, 1),
        0x03 | 0x0a | 0x20 => (32 * channels, 1),
        // Normalised integers, which name their number of channels.
        0xc0 | 0xc6 => (8, 1),
        0xc1 | 0xc3 | 0xc7 | 0xc9 => (16, 1),
        0xc2 | 0xc4 | 0xc8 | 0xca | 0x50 => (32, 1),
        0xc5 | 0xcb => (64, 1),
        // BC1 and BC4; then the other compressed ones.
        0x91 | 0x92 | 0x97 | 0x98 => (64, 4),
        0x93..=0x96 | 0x99..=0x9e => (128, 4),
        // 4:2:0, 4:2:2 and 4:4:4 of 8 and of 16 bits.
        0xb0 | 0x53 | 0x59 => (12, 1),
        0xa2 | 0xa5 | 0x51 | 0x55 | 0x5b => (16, 1),
        0x9f | 0xa1 | 0xb2 | 0xb4 | 0x54 | 0x57 | 0x5a | 0x5d => (24, 1),
        0xa3 | 0xa4 | 0xa6..=0xa9 | 0x52 | 0x56 | 0x5c => (32, 1),
        0xb3 | 0xb5 | 0x58 | 0x5e => (48, 1),
        0xb1 => (64, 1),
        _ => (128, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT4: Shape = Shape {
        width: 100,
        height: 0,
        depth: 0,
        format: CUarray_format::CU_AD_FORMAT_FLOAT,
        channels: 4,
        flags: 0,
    };

    #[test]
    fn zero_height_is_one_dimension_and_zero_depth_two() {
        assert_eq!(FLOAT4.bytes(1), 1600);
        let plane = Shape {
            height: 50,
            ..FLOAT4
        };
        assert_eq!(plane.bytes(1), 80_000);
        let bytes = Shape {
            format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            channels: 1,
            depth: 2,
            ..plane
        };
        assert_eq!(bytes.bytes(1), 10_000);
    }

    #[test]
    fn levels_shrink_but_layers_do_not() {
        let layered = Shape {
            height: 8,
            depth: 6,
            flags: CUDA_ARRAY3D_LAYERED,
            ..FLOAT4
        };
        assert_eq!(layered.level(1), 50 * 4 * 6 * 16);
        assert_eq!(layered.level(10), 6 * 16);
        let volume = Shape {
            flags: 0,
            ..layered
        };
        assert_eq!(volume.level(1), 50 * 4 * 3 * 16);
        let line = Shape {
            width: 8,
            channels: 1,
            ..FLOAT4
        };
        assert_eq!(
            line.bytes(99),
            (8 + 4 + 2 + 1) * 4,
            "no more than there are"
        );
    }

    #[test]
    fn compressed_and_video_formats_by_their_own_units() {
        let of = |format: u32, width, height| Shape {
            width,
            height,
            format: CUarray_format(format),
            channels: 4,
            ..FLOAT4
        };
        assert_eq!(of(0x91, 10, 6).bytes(1), 3 * 2 * 8);
        assert_eq!(of(0x9d, 16, 16).bytes(1), 16 * 16);
        assert_eq!(of(0xb0, 64, 64).bytes(1), 64 * 64 * 3 / 2);
        assert_eq!(of(0xc5, 3, 1).bytes(1), 24);
        assert_eq!(of(0x7fff, 3, 1).bytes(1), 48, "unknown: as the widest");
    }

    #[test]
    fn absurd_sizes_saturate() {
        let absurd = Shape {
            width: u64::MAX,
            height: u64::MAX,
            ..FLOAT4
        };
        assert!(absurd.bytes(1) > 1 << 60);
    }
}
