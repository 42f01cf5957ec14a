//! Copies and fills: `cuMemcpy*` and `cuMemset*`.
//!
//! What the host may notice follows the documentation of the API's synchronisation: a synchronous
//! copy that involves the host returns when it is done, one within device memory does not wait,
//! and an asynchronous one behaves synchronously where pageable memory forces it to.

mod arrays;
mod batch;
mod fill;
mod linear;
mod shaped;

use std::sync::Arc;

use cuda_headers::driver::{CUarray, CUresult, CUstream};

use crate::memory;
use crate::ops::{self, Op, Region, Side, Transfer};
use crate::stream::{Stream, default_here, resolve, wait_for};
use crate::{capture, state};

pub(crate) use fill::checked_fill;
pub(crate) use shaped::{describe, transfer_of};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// How a copy was asked for.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// By a function that returns when the caller may use the result.
    Now { per_thread: bool },
    /// In this stream.
    In { stream: CUstream, per_thread: bool },
}

impl When {
    fn stream(self) -> Result<Arc<Stream>, CUresult> {
        match self {
            Self::Now { per_thread } => {
                state::current()?;
                capture::check_unsafe_call()?;
                default_here(per_thread)
            }
            Self::In { stream, per_thread } => resolve(stream, per_thread),
        }
    }
}

/// Device memory, or host memory that the driver knows, at an address; all `bytes` of it.
pub(crate) fn known(address: u64, bytes: usize) -> Result<Region, CUresult> {
    let found = memory::find(address).ok_or(INVALID)?;
    if !found.contains(address, bytes) || !found.accessible {
        return Err(INVALID);
    }
    let side = if found.on_host() {
        Side::PinnedHost
    } else {
        Side::Device
    };
    Ok(Region {
        device: (side == Side::Device).then_some(found.owner.core),
        ..Region::new(usize::try_from(address).map_err(|_| INVALID)?, side)
    })
}

/// Memory of whatever kind: what the driver does not know is the application's own.
pub(crate) fn anything(address: u64, bytes: usize) -> Result<Region, CUresult> {
    if memory::find(address).is_some() {
        return known(address, bytes);
    }
    host(address)
}

/// Host memory, as a function that names it so takes it.
pub(crate) fn host(address: u64) -> Result<Region, CUresult> {
    if address == 0 {
        return Err(INVALID);
    }
    let pinned = memory::find(address).is_some_and(|found| found.on_host());
    let side = if pinned {
        Side::PinnedHost
    } else {
        Side::PageableHost
    };
    Ok(Region::new(
        usize::try_from(address).map_err(|_| INVALID)?,
        side,
    ))
}

/// The memory of an array, and how many bytes one of its elements has.
pub(crate) fn array(handle: CUarray) -> Result<(Region, usize), CUresult> {
    let array = crate::array::get(handle)?;
    if array.base == 0 {
        // Sparse: what is mapped there is not simulated byte by byte.
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let device = memory::find(array.base as u64).map(|found| found.owner.core);
    let region = Region {
        pitch: array.pitch,
        rows: array.rows,
        device,
        array: handle.0 as usize,
        ..Region::new(array.base, Side::Device)
    };
    Ok((region, (array.pitch / array.descriptor.Width.max(1)).max(1)))
}

/// Carries out a copy.
pub(crate) fn copy(mut transfer: Transfer, when: When) -> Result<(), CUresult> {
    let stream = when.stream()?;
    if transfer.is_empty() {
        return Ok(());
    }
    let captured = capture::is_capturing(&stream)?;
    let pageable = |side| side == Side::PageableHost;
    let from_pageable = pageable(transfer.from.side);
    let to_pageable = pageable(transfer.to.side);
    let within_device = transfer.within_device();
    if from_pageable && !captured && matches!(when, When::In { .. }) {
        transfer.stage();
    }
    ops::submit(&stream, Op::Transfer(transfer))?;
    let waits = match when {
        When::Now { .. } => !within_device,
        When::In { .. } => to_pageable && !captured,
    };
    if waits { wait_for(&stream) } else { Ok(()) }
}
