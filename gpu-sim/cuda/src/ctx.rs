//! Contexts: what `CUcontext` stands for, and the functions that make, destroy and select them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{CUcontext, CUdevice, CUresult};

use crate::handles::{Kind, Table};
use crate::state;

/// A context. Never freed: threads may still have it current after its end.
pub(crate) struct Context {
    pub(crate) handle: CUcontext,
    /// Never used twice, unlike the handle.
    pub(crate) id: u64,
    /// As the application counts devices.
    pub(crate) device: CUdevice,
    /// As the simulation counts devices.
    pub(crate) core_device: usize,
    pub(crate) flags: AtomicU32,
    pub(crate) primary: bool,
    alive: AtomicBool,
}

// SAFETY: the handle is an opaque value, nothing is reached through it.
unsafe impl Send for Context {}
// SAFETY: as above; everything else is atomic or constant.
unsafe impl Sync for Context {}

static CONTEXTS: Table<&'static Context> = Table::new(Kind::Context);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Context {
    pub(crate) fn check_alive(&self) -> Result<(), CUresult> {
        if self.alive.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED)
        }
    }
}

/// The context that a handle stands for.
pub(crate) fn from_handle(handle: CUcontext) -> Result<&'static Context, CUresult> {
    CONTEXTS
        .get(handle.0 as usize)
        .map(|context| *context)
        .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// All contexts that are alive.
pub(crate) fn all() -> Vec<&'static Context> {
    CONTEXTS
        .all()
        .into_iter()
        .map(|(_, context)| *context)
        .collect()
}
