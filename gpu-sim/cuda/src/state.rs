//! The state of this process: whether it is initialised, its simulation, and the contexts that each
//! thread has made current.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cuda_headers::driver::CUresult;
use gpu_sim_core::{Member, Simulation};

use crate::ctx::Context;
use crate::executor;

/// A page that the kernel empties in a forked child: non-zero while this process is initialised.
static INITIALISED: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());
/// Survives a fork: a child of an initialised process cannot initialise itself.
static EVER: AtomicBool = AtomicBool::new(false);
static SIMULATION: OnceLock<Arc<Simulation>> = OnceLock::new();
static MEMBER: OnceLock<Member> = OnceLock::new();

/// Deepest context stack of a thread.
const STACK: usize = 64;

thread_local! {
    static CONTEXTS: [Cell<Option<&'static Context>>; STACK] =
        const { [const { Cell::new(None) }; STACK] };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether driver functions may be called here.
#[inline]
pub(crate) fn usable() -> Result<(), CUresult> {
    if !initialised() {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    if IN_HOST_FUNCTION.get() {
        return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
    }
    Ok(())
}

/// Whether this very process, not one that it was forked from, has called `cuInit`.
#[inline]
pub(crate) fn initialised() -> bool {
    // SAFETY: NULL, or the page that `initialise` mapped for good.
    unsafe { INITIALISED.load(Ordering::Acquire).as_ref() }
        .is_some_and(|flag| flag.load(Ordering::Relaxed) != 0)
}

/// `cuInit`.
pub(crate) fn initialise() -> Result<(), CUresult> {
    static ONCE: Mutex<()> = Mutex::new(());
    if initialised() {
        return Ok(());
    }
    if EVER.load(Ordering::Acquire) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if initialised() {
        return Ok(());
    }
    let simulation = Simulation::from_env().map_err(|error| {
        eprintln!("{error}");
        CUresult::CUDA_ERROR_INVALID_VALUE
    })?;
    let simulation = SIMULATION.get_or_init(|| Arc::new(simulation));
    crate::device::initialise(simulation)?;
    let page = wiped_on_fork()?;
    // SAFETY: a fresh page, zeroed, mapped for good.
    unsafe { page.as_ref() }.store(1, Ordering::Relaxed);
    EVER.store(true, Ordering::Release);
    INITIALISED.store(page.as_ptr(), Ordering::Release);
    Ok(())
}

fn wiped_on_fork() -> Result<NonNull<AtomicU8>, CUresult> {
    const PAGE: usize = 4096;
    // SAFETY: a fresh private mapping; advising it has no preconditions.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED || libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            return Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM);
        }
        NonNull::new(page.cast()).ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)
    }
}

/// The simulation that the environment names, whether or not this process has called `cuInit`.
pub(crate) fn simulation() -> Result<&'static Arc<Simulation>, CUresult> {
    SIMULATION.get().ok_or(CUresult::CUDA_ERROR_NOT_INITIALIZED)
}

/// This process as a member of the simulation. The first call registers it and starts the thread
/// that makes effects happen in time.
pub(crate) fn member() -> Result<&'static Member, CUresult> {
    static ONCE: Mutex<()> = Mutex::new(());
    if let Some(member) = MEMBER.get() {
        return Ok(member);
    }
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(member) = MEMBER.get() {
        return Ok(member);
    }
    let member = executor::start(Arc::clone(simulation()?))?;
    Ok(MEMBER.get_or_init(|| member))
}

/// The context that is current to this thread.
pub(crate) fn current() -> Result<&'static Context, CUresult> {
    let context = top().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    context.check_alive()?;
    Ok(context)
}

/// The same without a check that it has not been destroyed.
pub(crate) fn top() -> Option<&'static Context> {
    let depth = DEPTH.try_with(Cell::get).ok()?;
    CONTEXTS
        .try_with(|stack| stack[depth.checked_sub(1)?].get())
        .ok()?
}

/// Makes `context` the current one on top of the others.
pub(crate) fn push(context: &'static Context) -> Result<(), CUresult> {
    let depth = DEPTH.get();
    if depth == STACK {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    CONTEXTS.with(|stack| stack[depth].set(Some(context)));
    DEPTH.set(depth + 1);
    Ok(())
}

/// Takes the current context off the stack.
pub(crate) fn pop() -> Option<&'static Context> {
    let context = top()?;
    DEPTH.set(DEPTH.get() - 1);
    Some(context)
}

/// Replaces the current context; `None` takes it off the stack.
pub(crate) fn set_current(context: Option<&'static Context>) -> Result<(), CUresult> {
    pop();
    match context {
        Some(context) => push(context),
        None => Ok(()),
    }
}

/// Runs a host function of a stream, in which driver calls are not permitted.
pub(crate) fn in_host_function(run: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    run();
    IN_HOST_FUNCTION.set(false);
}
