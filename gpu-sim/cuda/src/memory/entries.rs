//! `cuMemAlloc` and its kin.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUmemAttach_flags, CUresult};

use crate::entry::{answer, entry, out, out_optional};
use crate::memory::{self, Family, GRAIN, Owner};
use crate::{ctx, external, order, pool, state};

/// Rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

fn linear(size: usize, family: Family) -> Result<CUdeviceptr, CUresult> {
    let context = state::current()?;
    order::unsafe_call()?;
    memory::allocate(Owner::of(context), size, family).map(|base| base as CUdeviceptr)
}

/// An address of the old 32-bit forms. They work as long as addresses fit, which they never do.
fn narrow(address: CUdeviceptr) -> Result<CUdeviceptr_v1, CUresult> {
    CUdeviceptr_v1::try_from(address).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

fn place(address: CUdeviceptr) -> Result<usize, CUresult> {
    usize::try_from(address).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

fn pitched(width: usize, height: usize, element: c_uint) -> Result<(CUdeviceptr, usize), CUresult> {
    if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let pitch = memory::rounded(width, PITCH)?;
    let size = pitch
        .checked_mul(height)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    Ok((linear(size, Family::Linear)?, pitch))
}

/// `cuMemFree`: waits for the work of the context that owns the memory.
fn free(address: CUdeviceptr) -> Result<(), CUresult> {
    if address == 0 {
        return Ok(());
    }
    order::unsafe_call()?;
    let found = memory::find(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let base = found.base;
    if base as CUdeviceptr != address {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for context in ctx::all() {
        if context.id == found.owner.context || found.owner.context == 0 {
            order::synchronize(context)?;
        }
    }
    match found.family {
        Family::Pool(_) => pool::free_now(base),
        Family::PoolImport => {
            pool::detach_import(base)?();
            Ok(())
        }
        Family::External => external::unmap(base),
        Family::Graph => memory::graph_release(address),
        _ => memory::free(base),
    }
}

/// (free, total) of the current context's device.
fn info() -> Result<(usize, usize), CUresult> {
    let context = state::current()?;
    let (total, usage) = state::simulation()?.memory(context.core_device);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok((size(total.saturating_sub(usage.used)), size(total)))
}

/// In null mode addresses are only numbers, each used once.
pub(crate) fn null_address(size: usize) -> CUdeviceptr {
    static NEXT: AtomicU64 = AtomicU64::new(0x7e00_0000_0000);
    let step = size
        .checked_next_multiple_of(GRAIN)
        .unwrap_or(GRAIN)
        .max(GRAIN) as u64;
    NEXT.fetch_add(step, Ordering::Relaxed)
}

const NULL_TOTAL: usize = 24 << 30;

entry! {
    /// Rounded to 512 bytes inside blocks of 2 MiB; 0 bytes are an invalid value.
    fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize),
    null { answer(out(dptr, null_address(bytesize))) } {
        if dptr.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(dptr, linear(bytesize, Family::Linear)?)
    }

    fn cuMemAlloc(dptr: *mut CUdeviceptr_v1, bytesize: c_uint) {
        if dptr.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let address = linear(bytesize as usize, Family::Linear)?;
        let narrow = narrow(address);
        if narrow.is_err() {
            free(address)?;
        }
        out(dptr, narrow?)
    }

    fn cuMemAllocPitch_v2(
        dptr: *mut CUdeviceptr,
        pPitch: *mut usize,
        WidthInBytes: usize,
        Height: usize,
        ElementSizeBytes: c_uint,
    ), null {
        let pitch = WidthInBytes.checked_next_multiple_of(PITCH).unwrap_or(PITCH);
        out_optional(pPitch, pitch);
        answer(out(dptr, null_address(pitch.saturating_mul(Height))))
    } {
        if dptr.is_null() || pPitch.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (address, pitch) = pitched(WidthInBytes, Height, ElementSizeBytes)?;
        out(pPitch, pitch)?;
        out(dptr, address)
    }

    fn cuMemAllocPitch(
        dptr: *mut CUdeviceptr_v1,
        pPitch: *mut c_uint,
        WidthInBytes: c_uint,
        Height: c_uint,
        ElementSizeBytes: c_uint,
    ) {
        if dptr.is_null() || pPitch.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (address, pitch) =
            pitched(WidthInBytes as usize, Height as usize, ElementSizeBytes)?;
        let narrow = narrow(address);
        if narrow.is_err() {
            free(address)?;
        }
        out(pPitch, c_uint::try_from(pitch).unwrap_or(c_uint::MAX))?;
        out(dptr, narrow?)
    }

    /// Counts as device memory in full from the start, while the device has room; else it stays
    /// with the host.
    fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint),
    null { answer(out(dptr, null_address(bytesize))) } {
        let known = [
            CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0,
            CUmemAttach_flags::CU_MEM_ATTACH_HOST.0,
        ];
        if dptr.is_null() || !known.contains(&flags) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let address = match linear(bytesize, Family::Managed) {
            Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => linear(bytesize, Family::ManagedHost),
            other => other,
        }?;
        if let Some(allocation) = memory::lock()?.table.get_mut(place(address)?) {
            allocation.flags = flags;
        }
        out(dptr, address)
    }

    /// NULL is accepted, as documented.
    fn cuMemFree_v2(dptr: CUdeviceptr) {
        free(dptr)
    }

    fn cuMemFree(dptr: CUdeviceptr_v1) {
        free(CUdeviceptr::from(dptr))
    }

    fn cuMemGetInfo_v2(free_out: *mut usize, total_out: *mut usize), null {
        out_optional(free_out, NULL_TOTAL);
        out_optional(total_out, NULL_TOTAL);
        CUresult::CUDA_SUCCESS
    } {
        let (free, total) = info()?;
        out(free_out, free)?;
        out(total_out, total)
    }

    fn cuMemGetInfo(free_out: *mut c_uint, total_out: *mut c_uint) {
        let (free, total) = info()?;
        out(free_out, c_uint::try_from(free).unwrap_or(c_uint::MAX))?;
        out(total_out, c_uint::try_from(total).unwrap_or(c_uint::MAX))
    }

    /// Base and size as allocated, for any address inside.
    fn cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) {
        state::current()?;
        let found = memory::find(dptr).filter(|found| !found.on_host());
        let found = found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        out_optional(pbase, found.base as CUdeviceptr);
        out_optional(psize, found.size);
        Ok(())
    }

    fn cuMemGetAddressRange(
        pbase: *mut CUdeviceptr_v1,
        psize: *mut c_uint,
        dptr: CUdeviceptr_v1,
    ) {
        let _ = (pbase, psize);
        state::current()?;
        memory::find(CUdeviceptr::from(dptr)).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}
