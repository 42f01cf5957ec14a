//! Peers: whole GPUs of a simulation reach each other's memory; MIG instances never do.

use std::collections::HashSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{CUcontext, CUdevice, CUdevice_P2PAttribute as Attribute, CUresult};

use crate::entry::{entry, out};
use crate::{ctx, device, state};

/// (context that reaches, context that is reached), by id.
static ENABLED: Mutex<Option<HashSet<(u64, u64)>>> = Mutex::new(None);

fn enabled<T>(with: impl FnOnce(&mut HashSet<(u64, u64)>) -> T) -> T {
    let mut set = ENABLED.lock().unwrap_or_else(PoisonError::into_inner);
    with(set.get_or_insert_default())
}

fn reachable(from: CUdevice, to: CUdevice) -> Result<bool, CUresult> {
    let (a, b) = (device::get(from)?, device::get(to)?);
    Ok(from != to && !a.mig && !b.mig)
}

/// Whether `device` may reach memory of `owner` at all.
pub(crate) fn accessible(device: CUdevice, owner: CUdevice) -> bool {
    device == owner || reachable(device, owner) == Ok(true)
}

entry! {
    /// A device is not its own peer.
    fn cuDeviceCanAccessPeer(canAccessPeer: *mut c_int, dev: CUdevice, peerDev: CUdevice) {
        out(canAccessPeer, c_int::from(reachable(dev, peerDev)?))
    }

    fn cuDeviceGetP2PAttribute(
        value: *mut c_int,
        attrib: Attribute,
        srcDevice: CUdevice,
        dstDevice: CUdevice,
    ) {
        let reachable = reachable(srcDevice, dstDevice)?;
        if srcDevice == dstDevice {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        let answer = match attrib {
            Attribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK => 0,
            Attribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
            | Attribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
            | Attribute::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED => c_int::from(reachable),
            Attribute(5) => 0,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        out(value, answer)
    }

    fn cuCtxEnablePeerAccess(peerContext: CUcontext, Flags: c_uint) {
        if Flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let own = state::current()?;
        let peer = ctx::from_handle(peerContext)?;
        if own.id == peer.id {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        if own.device != peer.device && !reachable(own.device, peer.device)? {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        if enabled(|set| set.insert((own.id, peer.id))) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        }
    }

    fn cuCtxDisablePeerAccess(peerContext: CUcontext) {
        let own = state::current()?;
        let peer = ctx::from_handle(peerContext)?;
        if enabled(|set| set.remove(&(own.id, peer.id))) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
        }
    }
}

/// Drops what a context that is being destroyed reached, and who reached it.
pub(crate) fn on_context_destroy(id: u64) {
    enabled(|set| set.retain(|(from, to)| *from != id && *to != id));
}
