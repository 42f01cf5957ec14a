//! What a copy moves in the device's memory, as far as its description tells.

use cuda_headers::driver::{
    CUDA_MEMCPY2D, CUDA_MEMCPY2D_v1, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUDA_MEMCPY3D_v1,
    CUmemorytype,
};

/// A copy of two or three dimensions.
pub(crate) trait Block {
    /// What memory it reads and what it writes.
    fn ends(&self) -> [CUmemorytype; 2];
    /// Width in bytes, height and depth.
    fn extent(&self) -> [u64; 3];
    /// Whether both ends lie on one device.
    fn is_local(&self) -> bool {
        true
    }
}

/// Bytes read and written in the device's memory. `None` if one end is on the host, or may be: addresses of unified memory do
/// not tell.
pub(crate) fn of(block: &impl Block) -> Option<u64> {
    let on_device = |kind: &CUmemorytype| {
        matches!(
            *kind,
            CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_ARRAY
        )
    };
    block.ends().iter().all(on_device).then(|| {
        let [width, height, depth] = block.extent();
        let bytes = width.saturating_mul(height).saturating_mul(depth);
        between(bytes, block.is_local())
    })
}

/// Bytes read and written in the device's memory by a copy of so many. Between two devices, each has one half of it.
pub(crate) fn between(bytes: u64, local: bool) -> u64 {
    if local {
        bytes.saturating_mul(2)
    } else {
        bytes
    }
}

/// A length in one of the types that the driver's structures use.
fn length(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

macro_rules! blocks {
    ($($name:ident { $depth:ident $(, $local:ident)? })*) => { $(
        impl Block for $name {
            fn ends(&self) -> [CUmemorytype; 2] {
                [self.srcMemoryType, self.dstMemoryType]
            }

            fn extent(&self) -> [u64; 3] {
                [length(self.WidthInBytes), length(self.Height), blocks!(@$depth self)]
            }

            $( fn is_local(&self) -> bool {
                $local(self)
            } )?
        }
    )* };
    (@flat $block:ident) => { 1 };
    (@deep $block:ident) => { length($block.Depth) };
}

blocks! {
    CUDA_MEMCPY2D { flat }
    CUDA_MEMCPY2D_v1 { flat }
    CUDA_MEMCPY3D { deep }
    CUDA_MEMCPY3D_v1 { deep }
    CUDA_MEMCPY3D_PEER { deep, same_context }
}

fn same_context(block: &CUDA_MEMCPY3D_PEER) -> bool {
    block.srcContext == block.dstContext
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(from: CUmemorytype, to: CUmemorytype) -> CUDA_MEMCPY2D {
        // SAFETY: a structure of integers and pointers; zero is none.
        let mut block: CUDA_MEMCPY2D = unsafe { core::mem::zeroed() };
        (block.srcMemoryType, block.dstMemoryType) = (from, to);
        (block.WidthInBytes, block.Height) = (1000, 30);
        block
    }

    #[test]
    fn only_what_stays_on_the_device_is_its_traffic() {
        let [host, device, array, unified] = [1, 2, 3, 4].map(CUmemorytype);
        assert_eq!(of(&flat(device, array)), Some(60_000));
        assert_eq!(of(&flat(array, array)), Some(60_000));
        for (from, to) in [
            (host, device),
            (array, host),
            (unified, unified),
            (device, unified),
        ] {
            assert_eq!(of(&flat(from, to)), None);
        }
    }

    #[test]
    fn depth_counts_and_a_peer_has_half() {
        // SAFETY: as above.
        let mut block: CUDA_MEMCPY3D_PEER = unsafe { core::mem::zeroed() };
        (block.srcMemoryType, block.dstMemoryType) = (CUmemorytype(2), CUmemorytype(3));
        (block.WidthInBytes, block.Height, block.Depth) = (10, 10, 7);
        assert_eq!(of(&block), Some(1400));
        block.dstContext.0 = core::ptr::dangling_mut();
        assert_eq!(of(&block), Some(700));
        block.Depth = usize::MAX;
        assert_eq!(of(&block), Some(u64::MAX));
    }
}
