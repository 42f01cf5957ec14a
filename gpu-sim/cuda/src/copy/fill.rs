//! Setting memory to a value. Asynchronous, whatever the function is called, except where the
//! memory is the host's.

use std::ffi::{c_uchar, c_uint, c_ushort};

use cuda_headers::driver::{CUdeviceptr, CUresult, CUstream};

use super::{INVALID, When, known};
use crate::entry::entry;
use crate::ops::{self, Fill, Op, Side};
use crate::stream::wait_for;

/// A fill whose memory has been checked. `None`: there is nothing to fill.
pub(crate) fn checked_fill(
    address: CUdeviceptr,
    value: u32,
    element: usize,
    pitch: usize,
    [width, height]: [usize; 2],
) -> Result<Option<(Fill, Side)>, CUresult> {
    if width == 0 || height == 0 {
        return Ok(None);
    }
    let row = width.checked_mul(element).ok_or(INVALID)?;
    let pitch = if height == 1 { row } else { pitch };
    let aligned = address.is_multiple_of(element as u64) && pitch.is_multiple_of(element);
    if pitch < row || !aligned {
        return Err(INVALID);
    }
    let span = (height - 1)
        .checked_mul(pitch)
        .and_then(|rows| rows.checked_add(row));
    let region = known(address, span.ok_or(INVALID)?)?;
    let fill = Fill {
        address: region.address,
        pitch,
        value,
        element,
        width,
        height,
    };
    Ok(Some((fill, region.side)))
}

fn run(
    address: CUdeviceptr,
    (value, element): (u32, usize),
    pitch: usize,
    extent: [usize; 2],
    when: When,
) -> Result<(), CUresult> {
    crate::state::current()?;
    let stream = when.stream()?;
    let Some((fill, side)) = checked_fill(address, value, element, pitch, extent)? else {
        return Ok(());
    };
    ops::submit(&stream, Op::Fill(fill))?;
    if side == Side::Device || matches!(when, When::In { .. }) {
        Ok(())
    } else {
        wait_for(&stream)
    }
}

entry! {
    fn cuMemsetD8_v2(dstDevice: CUdeviceptr, uc: c_uchar, N: usize) => cuMemsetD8_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (u32::from(uc), 1), 0, [N, 1], when)
    }

    fn cuMemsetD8Async(dstDevice: CUdeviceptr, uc: c_uchar, N: usize, hStream: CUstream)
    => cuMemsetD8Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (u32::from(uc), 1), 0, [N, 1], when)
    }

    fn cuMemsetD2D8_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
    ) => cuMemsetD2D8_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (u32::from(uc), 1), dstPitch, [Width, Height], when)
    }

    fn cuMemsetD2D8Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) => cuMemsetD2D8Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (u32::from(uc), 1), dstPitch, [Width, Height], when)
    }

    fn cuMemsetD16_v2(dstDevice: CUdeviceptr, us: c_ushort, N: usize) => cuMemsetD16_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (u32::from(us), 2), 0, [N, 1], when)
    }

    fn cuMemsetD16Async(dstDevice: CUdeviceptr, us: c_ushort, N: usize, hStream: CUstream)
    => cuMemsetD16Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (u32::from(us), 2), 0, [N, 1], when)
    }

    fn cuMemsetD2D16_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
    ) => cuMemsetD2D16_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (u32::from(us), 2), dstPitch, [Width, Height], when)
    }

    fn cuMemsetD2D16Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) => cuMemsetD2D16Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (u32::from(us), 2), dstPitch, [Width, Height], when)
    }

    fn cuMemsetD32_v2(dstDevice: CUdeviceptr, ui: c_uint, N: usize) => cuMemsetD32_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (ui, 4), 0, [N, 1], when)
    }

    fn cuMemsetD32Async(dstDevice: CUdeviceptr, ui: c_uint, N: usize, hStream: CUstream)
    => cuMemsetD32Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (ui, 4), 0, [N, 1], when)
    }

    fn cuMemsetD2D32_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
    ) => cuMemsetD2D32_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        run(dstDevice, (ui, 4), dstPitch, [Width, Height], when)
    }

    fn cuMemsetD2D32Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) => cuMemsetD2D32Async_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        run(dstDevice, (ui, 4), dstPitch, [Width, Height], when)
    }
}
