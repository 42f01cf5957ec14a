//! This process in its group: attached at `cuInit`, found by every hook, made anew in a child of `fork`.
//!
//! # Safety
//! The pointer to the process lies in a page that the kernel zeroes in a child that does not share our memory: such a child
//! is not attached and takes a slot of its own, never its parent's. A child that shares the memory (vfork) is the parent as
//! far as quotas go. Nothing here is ever freed: libraries call the driver until the very end.

use core::ffi::c_int;
use core::ptr::NonNull;

use cuda_headers::driver::CUresult;
use quota_abi::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use quota_abi::{map, slots};

use crate::attach::{self, Attached, Outcome};
use crate::context::Contexts;
use crate::device::Devices;
use crate::driver::{call, relaxed};
use crate::guard::{Aside, uncancelled};
use crate::memory::Memory;
use crate::report;
use crate::table;
use crate::time;

/// Everything of an attached process.
pub(crate) struct Process {
    /// The devices that it sees.
    pub(crate) devices: Devices,
    /// Its contexts.
    pub(crate) contexts: Contexts,
    /// What it has allocated.
    pub(crate) memory: Memory,
}

/// What a process begins with. Copied from here: its tables are larger than the stack of some threads that call `cuInit`.
static NO_CONTEXTS: Contexts = Contexts::new();
static NO_MEMORY: Memory = Memory::new();

impl Process {
    /// Never freed. `None` without memory.
    fn new(devices: Devices) -> Option<NonNull<Self>> {
        table::prepare();
        let place: NonNull<Self> = map::anonymous(size_of::<Self>())?.cast();
        let process = place.as_ptr();
        // SAFETY: a mapping of our own, large enough and aligned to a page, which nobody has seen; the two statics are never
        // changed, and each copy is made once, so that nothing is owned twice.
        unsafe {
            (&raw mut (*process).devices).write(devices);
            (&raw mut (*process).contexts).copy_from_nonoverlapping(&raw const NO_CONTEXTS, 1);
            (&raw mut (*process).memory).copy_from_nonoverlapping(&raw const NO_MEMORY, 1);
        }
        Some(place)
    }
}

/// What the fork-wiped page holds. Zero: nothing has happened in this process.
struct Page {
    process: AtomicPtr<Process>,
    state: AtomicU32,
    /// The refusal's code, for `cuInit` to answer again.
    code: AtomicU32,
}

const FRESH: u32 = 0;
/// A thread is attaching.
const BUSY: u32 = 1;
/// Attached, devices not yet known: the driver has still to be initialised.
const WAITING: u32 = 2;
const ATTACHED: u32 = 3;
const ASIDE: u32 = 4;
const REFUSED: u32 = 5;

static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());
/// Attached and waiting for the driver: what `attach` gave.
static PENDING: AtomicPtr<Attached> = AtomicPtr::new(core::ptr::null_mut());

/// This process, if it is attached and its devices are known.
#[inline]
pub(crate) fn limited() -> Result<&'static Process, Aside> {
    // SAFETY: null, or a page that is never unmapped.
    if let Some(page) = unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        // SAFETY: null, or a process that is never freed.
        if let Some(process) = unsafe { page.process.load(Ordering::Acquire).as_ref() } {
            return Ok(process);
        }
        match page.state.load(Ordering::Relaxed) {
            ASIDE => return Err(Aside::NotLimited),
            REFUSED => return Err(Aside::Refused),
            _ => {}
        }
    }
    late()
}

/// `cuInit`: a quota that cannot be enforced stops the program here, before the driver is asked.
pub(crate) fn initialise(driver: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    uncancelled(|| initialise_now(driver))
}

fn initialise_now(driver: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let Some(page) = page() else {
        report::stop(format_args!(
            "no memory to attach; free some and start again"
        ));
        return Ok(CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
    };
    match attach_once(page) {
        ASIDE => Err(Aside::NotLimited),
        REFUSED => Ok(CUresult(page.code.load(Ordering::Relaxed))),
        ATTACHED => Ok(driver()),
        _ => {
            let answer = driver();
            if answer == CUresult::CUDA_SUCCESS && !learn_devices(page) {
                return Ok(CUresult(page.code.load(Ordering::Relaxed)));
            }
            Ok(answer)
        }
    }
}

/// A hook before any `cuInit` that we saw: a child after `fork`, a call too early, or a driver initialised past us, in which
/// case the quota holds from here on.
#[cold]
fn late() -> Result<&'static Process, Aside> {
    uncancelled(late_now)
}

fn late_now() -> Result<&'static Process, Aside> {
    let mut count: c_int = 0;
    // SAFETY: a live out-pointer.
    let answer = relaxed(|| unsafe { call!(cuDeviceGetCount(&raw mut count)) });
    if answer != CUresult::CUDA_SUCCESS {
        return Err(Aside::NotInitialised);
    }
    let page = page().ok_or(Aside::Refused)?;
    match attach_once(page) {
        WAITING | ATTACHED if learn_devices(page) => {
            // SAFETY: null, or a process that is never freed.
            unsafe { page.process.load(Ordering::Acquire).as_ref() }.ok_or(Aside::Refused)
        }
        ASIDE => Err(Aside::NotLimited),
        _ => Err(Aside::Refused),
    }
}

/// Attaches, or waits for the thread that does. The state afterwards.
fn attach_once(page: &Page) -> u32 {
    loop {
        let claimed =
            page.state
                .compare_exchange(FRESH, BUSY, Ordering::Acquire, Ordering::Acquire);
        match claimed {
            Ok(_) => break,
            Err(BUSY) => pause(),
            Err(state) => return state,
        }
    }
    let state = match attach::attach() {
        Outcome::Aside => ASIDE,
        Outcome::Refused(code) => {
            page.code.store(code.0, Ordering::Relaxed);
            REFUSED
        }
        Outcome::Attached(attached) => {
            PENDING.store(Box::into_raw(attached), Ordering::Release);
            WAITING
        }
    };
    page.state.store(state, Ordering::Release);
    state
}

/// Makes the process from what is pending, now that the driver can be asked for its devices. `false` if they cannot be
/// limited, which is a refusal.
fn learn_devices(page: &Page) -> bool {
    let claimed = page
        .state
        .compare_exchange(WAITING, BUSY, Ordering::Acquire, Ordering::Acquire);
    match claimed {
        Ok(_) => {}
        Err(BUSY) => {
            while page.state.load(Ordering::Acquire) == BUSY {
                pause();
            }
            return page.state.load(Ordering::Acquire) == ATTACHED;
        }
        Err(state) => return state == ATTACHED,
    }
    // Stored before the state became WAITING.
    let devices = attached().ok_or(CUresult::CUDA_ERROR_UNKNOWN);
    match devices.and_then(|attached| relaxed(|| Devices::learn(attached))) {
        Ok(devices) => {
            let Some(process) = Process::new(devices) else {
                report::stop(format_args!(
                    "no memory to attach; free some and start again"
                ));
                page.code
                    .store(CUresult::CUDA_ERROR_SYSTEM_NOT_READY.0, Ordering::Relaxed);
                page.state.store(REFUSED, Ordering::Release);
                return false;
            };
            // SAFETY: just made, and never freed.
            time::begin(unsafe { process.as_ref() });
            page.process.store(process.as_ptr(), Ordering::Release);
            page.state.store(ATTACHED, Ordering::Release);
            true
        }
        Err(code) => {
            page.code.store(code.0, Ordering::Relaxed);
            page.state.store(REFUSED, Ordering::Release);
            false
        }
    }
}

/// What this process, or the one that it was forked from, found when it attached.
pub(crate) fn attached() -> Option<&'static Attached> {
    // SAFETY: null, or never freed.
    unsafe { PENDING.load(Ordering::Acquire).as_ref() }
}

/// Its pid in its own namespace.
pub(crate) fn pid() -> u32 {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::getpid() }).unwrap_or(0)
}

/// Frees the slots of the group's dead processes. `true` if there were any.
pub(crate) fn reap() -> bool {
    attached().is_some_and(|attached| {
        let declared = attached.policy.map(|policy| &policy.dead);
        uncancelled(|| slots::reap_under(&attached.region, &attached.me, declared))
    })
}

/// The same at most ten times a second: looking whether processes live takes system calls.
pub(crate) fn reap_now_and_then() -> bool {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let tenths = u64::try_from(time::clock::own() / 100_000_000).unwrap_or(0);
    LAST.swap(tenths, Ordering::Relaxed) != tenths && reap()
}

/// The page, made by the first call. `None` without memory.
fn page() -> Option<&'static Page> {
    let known = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or a page that is never unmapped.
    if let Some(page) = unsafe { known.as_ref() } {
        return Some(page);
    }
    let size = size_of::<Page>();
    let (pages, wiped): (NonNull<u8>, bool) = match map::wiped_on_fork(size) {
        Some(pages) => (pages, true),
        None => (map::anonymous(size)?, false),
    };
    let page = pages.cast::<Page>();
    let first = PAGE.compare_exchange(
        core::ptr::null_mut(),
        page.as_ptr(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match first {
        Ok(_) => {
            if !wiped {
                // SAFETY: a function that stays as long as the process: the library is never unloaded.
                unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
            }
            // SAFETY: a zeroed page is a fresh `Page`, and stays mapped.
            Some(unsafe { page.as_ref() })
        }
        Err(other) => {
            // SAFETY: nobody has seen this page.
            unsafe { map::release(pages, size) };
            // SAFETY: the other thread's page, which stays mapped.
            unsafe { other.as_ref() }
        }
    }
}

/// In a child of `fork`, where the kernel cannot wipe the page (before Linux 4.14, and in some sandboxes). Not in one that
/// shares our memory: `vfork` and `clone` call no handlers. A bare `clone` without CLONE_VM is taken for such a one there.
unsafe extern "C" fn forget_parent() {
    // SAFETY: null, or a page that is never unmapped.
    if let Some(page) = unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        page.process.store(core::ptr::null_mut(), Ordering::Relaxed);
        page.state.store(FRESH, Ordering::Relaxed);
    }
}

fn pause() {
    let short = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000,
    };
    // SAFETY: a live timespec; no answer wanted.
    unsafe { libc::nanosleep(&raw const short, core::ptr::null_mut()) };
}
