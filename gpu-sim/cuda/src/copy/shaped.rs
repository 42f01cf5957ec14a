//! Copies of rectangles and boxes.

use std::ffi::c_void;

use cuda_headers::driver::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUdeviceptr, CUmemorytype as Type,
    CUresult, CUstream,
};

use super::{INVALID, When, anything, array, copy, host, known};
use crate::ctx;
use crate::entry::{entry, input};
use crate::ops::{Region, Side, Transfer};

/// One end of a copy as the API describes it.
struct End {
    x: usize,
    y: usize,
    z: usize,
    kind: Type,
    host: u64,
    device: CUdeviceptr,
    array: CUarray,
    pitch: usize,
    rows: usize,
}

impl End {
    /// The region whose first row is the copy's first row. `extent` is width, height and depth.
    fn region(&self, extent: [usize; 3]) -> Result<Region, CUresult> {
        let [width, height, depth] = extent;
        if self.kind == Type::CU_MEMORYTYPE_ARRAY {
            let (array, _) = array(self.array)?;
            let rows = array.rows.max(1);
            let fits = self.x + width <= array.pitch
                && self.y + height <= rows
                && self.z + depth <= crate::array::get(self.array)?.depth;
            let start = array.address + (self.z * rows + self.y) * array.pitch + self.x;
            return fits
                .then_some(Region {
                    address: start,
                    ..array
                })
                .ok_or(INVALID);
        }
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let rows = if self.rows == 0 { height } else { self.rows };
        if pitch < self.x + width || (depth > 1 && rows < self.y + height) {
            return Err(INVALID);
        }
        let offset = (self.z * rows + self.y) * pitch + self.x;
        let span = ((depth - 1) * rows + (height - 1)) * pitch + width;
        let base = match self.kind {
            Type::CU_MEMORYTYPE_HOST => self.host,
            Type::CU_MEMORYTYPE_DEVICE | Type::CU_MEMORYTYPE_UNIFIED => self.device,
            _ => return Err(INVALID),
        };
        let start = base.checked_add(offset as u64).ok_or(INVALID)?;
        let region = match self.kind {
            _ if base == 0 => return Err(INVALID),
            Type::CU_MEMORYTYPE_HOST => host(start)?,
            Type::CU_MEMORYTYPE_DEVICE => known(start, span)?,
            _ => anything(start, span)?,
        };
        Ok(Region {
            pitch,
            rows,
            ..region
        })
    }
}

/// The copy that a description asks for.
pub(crate) fn transfer_of(copy: &CUDA_MEMCPY3D) -> Result<Transfer, CUresult> {
    let extent = [copy.WidthInBytes, copy.Height, copy.Depth];
    if extent.contains(&0) {
        return Ok(Transfer::empty());
    }
    if copy.srcLOD != 0 || copy.dstLOD != 0 {
        return Err(INVALID);
    }
    let from = End {
        x: copy.srcXInBytes,
        y: copy.srcY,
        z: copy.srcZ,
        kind: copy.srcMemoryType,
        host: copy.srcHost as u64,
        device: copy.srcDevice,
        array: copy.srcArray,
        pitch: copy.srcPitch,
        rows: copy.srcHeight,
    };
    let to = End {
        x: copy.dstXInBytes,
        y: copy.dstY,
        z: copy.dstZ,
        kind: copy.dstMemoryType,
        host: copy.dstHost as u64,
        device: copy.dstDevice,
        array: copy.dstArray,
        pitch: copy.dstPitch,
        rows: copy.dstHeight,
    };
    Ok(Transfer::new(
        to.region(extent)?,
        from.region(extent)?,
        extent,
    ))
}

/// The description of a copy, for who asks a graph's node.
pub(crate) fn describe(transfer: &Transfer) -> CUDA_MEMCPY3D {
    // SAFETY: integers and addresses, for which zero is valid.
    let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
    let kind = |region: &Region| match region.side {
        Side::Device => Type::CU_MEMORYTYPE_DEVICE,
        Side::PinnedHost | Side::PageableHost => Type::CU_MEMORYTYPE_HOST,
    };
    copy.srcMemoryType = kind(&transfer.from);
    copy.dstMemoryType = kind(&transfer.to);
    copy.srcDevice = transfer.from.address as CUdeviceptr;
    copy.srcHost = transfer.from.address as *const c_void;
    copy.dstDevice = transfer.to.address as CUdeviceptr;
    copy.dstHost = transfer.to.address as *mut c_void;
    (copy.srcPitch, copy.srcHeight) = (transfer.from.pitch, transfer.from.rows);
    (copy.dstPitch, copy.dstHeight) = (transfer.to.pitch, transfer.to.rows);
    copy.WidthInBytes = transfer.width;
    copy.Height = transfer.height;
    copy.Depth = transfer.depth;
    copy
}

fn from_2d(copy: &CUDA_MEMCPY2D) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcArray: copy.srcArray,
        reserved0: std::ptr::null_mut(),
        srcPitch: copy.srcPitch,
        srcHeight: 0,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstArray: copy.dstArray,
        reserved1: std::ptr::null_mut(),
        dstPitch: copy.dstPitch,
        dstHeight: 0,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: 1,
    }
}

fn from_peer(copy: &CUDA_MEMCPY3D_PEER) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcZ: copy.srcZ,
        srcLOD: copy.srcLOD,
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcArray: copy.srcArray,
        reserved0: std::ptr::null_mut(),
        srcPitch: copy.srcPitch,
        srcHeight: copy.srcHeight,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstZ: copy.dstZ,
        dstLOD: copy.dstLOD,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstArray: copy.dstArray,
        reserved1: std::ptr::null_mut(),
        dstPitch: copy.dstPitch,
        dstHeight: copy.dstHeight,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: copy.Depth,
    }
}

unsafe fn copy_2d(params: *const CUDA_MEMCPY2D, when: When) -> Result<(), CUresult> {
    crate::state::current()?;
    // SAFETY: NULL or valid, as the driver API asks.
    copy(transfer_of(&from_2d(unsafe { input(params) }?))?, when)
}

unsafe fn copy_3d(params: *const CUDA_MEMCPY3D, when: When) -> Result<(), CUresult> {
    crate::state::current()?;
    // SAFETY: NULL or valid, as the driver API asks.
    copy(transfer_of(unsafe { input(params) }?)?, when)
}

unsafe fn copy_peer(params: *const CUDA_MEMCPY3D_PEER, when: When) -> Result<(), CUresult> {
    crate::state::current()?;
    // SAFETY: NULL or valid, as the driver API asks.
    let params = unsafe { input(params) }?;
    for (kind, context) in [
        (params.srcMemoryType, params.srcContext),
        (params.dstMemoryType, params.dstContext),
    ] {
        // Only device memory and arrays have a context.
        if matches!(kind, Type::CU_MEMORYTYPE_DEVICE | Type::CU_MEMORYTYPE_ARRAY) {
            ctx::from_handle(context)?;
        }
    }
    copy(transfer_of(&from_peer(params))?, when)
}

entry! {
    fn cuMemcpy2D_v2(pCopy: *const CUDA_MEMCPY2D) => cuMemcpy2D_v2_ptds {
        copy_2d(pCopy, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpy2DUnaligned_v2(pCopy: *const CUDA_MEMCPY2D) => cuMemcpy2DUnaligned_v2_ptds {
        copy_2d(pCopy, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpy2DAsync_v2(pCopy: *const CUDA_MEMCPY2D, hStream: CUstream)
    => cuMemcpy2DAsync_v2_ptsz {
        copy_2d(pCopy, When::In { stream: hStream, per_thread: PER_THREAD })
    }

    fn cuMemcpy3D_v2(pCopy: *const CUDA_MEMCPY3D) => cuMemcpy3D_v2_ptds {
        copy_3d(pCopy, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpy3DAsync_v2(pCopy: *const CUDA_MEMCPY3D, hStream: CUstream)
    => cuMemcpy3DAsync_v2_ptsz {
        copy_3d(pCopy, When::In { stream: hStream, per_thread: PER_THREAD })
    }

    fn cuMemcpy3DPeer(pCopy: *const CUDA_MEMCPY3D_PEER) => cuMemcpy3DPeer_ptds {
        copy_peer(pCopy, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpy3DPeerAsync(pCopy: *const CUDA_MEMCPY3D_PEER, hStream: CUstream)
    => cuMemcpy3DPeerAsync_ptsz {
        copy_peer(pCopy, When::In { stream: hStream, per_thread: PER_THREAD })
    }
}
