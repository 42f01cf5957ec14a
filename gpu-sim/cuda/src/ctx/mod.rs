//! Contexts: what `CUcontext` stands for, and the functions that make, destroy and select them.

mod current;
mod green;
mod lifecycle;
mod primary;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUcontext, CUctx_flags, CUdevice, CUresult};

use crate::engine;
use crate::handles::{Kind, Table};
use crate::stream::Stream;
use crate::{device, state};

pub(crate) use settings::{PRIORITIES, Settings};

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
    /// What `cuCtxGetApiVersion` answers.
    pub(crate) api_version: u32,
    pub(crate) primary: bool,
    /// A primary context that is not retained is not alive.
    alive: AtomicBool,
    /// `cuCtxAttach` less `cuCtxDetach`; the context's creation counts as one.
    users: AtomicU32,
    /// An error that a kernel ended the context with, or 0.
    poison: AtomicU32,
    settings: Mutex<Settings>,
    streams: Mutex<DefaultStreams>,
}

// SAFETY: the handle is an opaque value, nothing is reached through it.
unsafe impl Send for Context {}
// SAFETY: as above; everything else is atomic, guarded or constant.
unsafe impl Sync for Context {}

/// The default streams of a context, made when they are first used.
#[derive(Default)]
pub(crate) struct DefaultStreams {
    pub(crate) legacy: Option<Arc<Stream>>,
    pub(crate) per_thread: HashMap<u64, Arc<Stream>>,
}

static CONTEXTS: Table<&'static Context> = Table::new(Kind::Context);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Context {
    /// Whether it can be used: it exists, and no kernel has broken it.
    pub(crate) fn check_alive(&self) -> Result<(), CUresult> {
        if !self.is_alive() {
            return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
        match self.poison.load(Ordering::Acquire) {
            0 => Ok(()),
            error => Err(CUresult(error)),
        }
    }

    /// Whether it exists, broken or not.
    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Breaks it: every later call in it answers this error until it is destroyed.
    pub(crate) fn poison(&self, error: CUresult) {
        let _ = self
            .poison
            .compare_exchange(0, error.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn default_streams(&self) -> MutexGuard<'_, DefaultStreams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The context that a handle stands for, alive.
pub(crate) fn from_handle(handle: CUcontext) -> Result<&'static Context, CUresult> {
    let context = CONTEXTS
        .get(handle.0 as usize)
        .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    if context.is_alive() {
        Ok(*context)
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }
}

/// The same, with NULL meaning the current context.
pub(crate) fn from_handle_or_current(handle: CUcontext) -> Result<&'static Context, CUresult> {
    if handle.is_null() {
        state::current()
    } else {
        from_handle(handle)
    }
}

/// Runs something with a context current to this thread.
pub(crate) fn with_current<T>(
    context: &'static Context,
    run: impl FnOnce() -> Result<T, CUresult>,
) -> Result<T, CUresult> {
    state::push(context)?;
    let result = run();
    state::pop();
    result
}

/// All contexts that are alive.
pub(crate) fn all() -> Vec<&'static Context> {
    let contexts = CONTEXTS.all().into_iter().map(|(_, context)| *context);
    contexts.filter(|context| context.is_alive()).collect()
}

/// A new context, not yet alive and charged to nobody.
fn allocate(device: CUdevice, flags: u32, primary: bool) -> Result<&'static Context, CUresult> {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    allocate_as(id, device, flags, primary)
}

/// Another handle for a context that is alive: what is made by it belongs to the same context.
fn alias(of: &'static Context) -> Result<&'static Context, CUresult> {
    let flags = of.flags.load(Ordering::Relaxed);
    let context = allocate_as(of.id, of.device, flags, of.primary)?;
    context.alive.store(true, Ordering::Release);
    Ok(context)
}

/// The handle ends; the context does not.
fn end_alias(context: &'static Context) {
    let _ = crate::stream::synchronize_context(context);
    context.alive.store(false, Ordering::Release);
    settings::reset(context);
    CONTEXTS.remove(context.handle.0 as usize);
}

fn allocate_as(
    id: u64,
    device: CUdevice,
    flags: u32,
    primary: bool,
) -> Result<&'static Context, CUresult> {
    let core_device = device::core_index(device)?;
    let (_, context) = CONTEXTS.insert_with(|handle| {
        let context = Context {
            handle: CUcontext(handle as *mut _),
            id,
            device,
            core_device,
            flags: AtomicU32::new(flags),
            api_version: 3020,
            primary,
            alive: AtomicBool::new(false),
            users: AtomicU32::new(1),
            poison: AtomicU32::new(0),
            settings: Mutex::new(Settings::default()),
            streams: Mutex::new(DefaultStreams::default()),
        };
        Box::leak(Box::new(context))
    });
    Ok(*context)
}

/// Charges the context to its device and lets it be used.
fn bring_to_life(context: &Context) -> Result<(), CUresult> {
    let member = state::member()?;
    member
        .context_created(context.core_device)
        .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    crate::memory::on_context_begin(context.id);
    context.alive.store(true, Ordering::Release);
    Ok(())
}

/// Ends a context: its work is dropped, its memory and modules are freed.
fn end(context: &'static Context) {
    if !context.alive.swap(false, Ordering::AcqRel) {
        return;
    }
    for (_, other) in CONTEXTS.all() {
        // Other handles of it.
        if other.id == context.id {
            other.alive.store(false, Ordering::Release);
        }
    }
    crate::capture::on_context_destroy(context.id);
    crate::stream::on_context_destroy(context);
    engine::abandon_context(context.id);
    crate::event::on_context_destroy(context.id);
    crate::device::on_context_destroy(context.id);
    // Modules first: their variables would be freed by address a second time, when it may be another's already.
    crate::module::on_context_destroy(context.id);
    crate::memory::on_context_destroy(context.id);
    context.poison.store(0, Ordering::Release);
    *context.default_streams() = DefaultStreams::default();
    settings::reset(context);
    if let Ok(member) = state::member() {
        member.context_destroyed(context.core_device);
    }
}

/// Scheduling flags exclude each other, and unknown flags are refused.
fn check_flags(flags: u32) -> Result<(), CUresult> {
    let known = flags & !CUctx_flags::CU_CTX_FLAGS_MASK.0 == 0;
    let schedule = flags & CUctx_flags::CU_CTX_SCHED_MASK.0;
    if known && matches!(schedule, 0 | 1 | 2 | 4) {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}
