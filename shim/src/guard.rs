//! The outermost frame of every hook: re-entrance, panics, standing aside, threads that leave by another way.

use core::cell::Cell;
use core::ffi::c_int;
use core::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_headers::driver::CUresult;

use crate::hook::Absent;
use crate::inside::Own;
use crate::{driver, inside, time};

/// The driver's own use of the stack between two hooks of one thread, at most.
const NEAR: usize = 1 << 20;

/// Whether a hook at the address `here` of this thread's stack was called by way of the one at `outer`. One that lies above it, or
/// far away, was left by `longjmp` out of a signal handler: hooks end in the order in which they lie on the stack.
///
/// Nothing is read at `outer`: a stack that has been left may be gone.
const fn is_within(here: usize, outer: usize) -> bool {
    let above = outer.wrapping_sub(here);
    above != 0 && above < NEAR
}

/// What a hook that was left by `longjmp` has not put back.
#[cold]
fn put_back() {
    restore_cancel(inside::with(|own| own.cancel.take()));
    driver::put_back_capture_mode();
    time::hook_was_left();
}

/// Waits, in the gate or in the driver, with nothing of ours held: a signal handler that calls the driver meanwhile is not inside a
/// hook, and one that leaves by `longjmp`, as an interrupt key may make it, leaves nothing behind. (One that leaves a call which
/// does not wait does: until this thread calls a hook from no deeper a frame, its calls pass.)
pub(crate) fn outside<R>(wait: impl FnOnce() -> R) -> R {
    let outer = inside::with(|own| own.hook.replace(0));
    let answer = wait();
    inside::with(|own| own.hook.set(outer));
    answer
}

/// Runs something that waits, reads files or writes lines, so that a thread which is cancelled meanwhile is cancelled
/// afterwards: unwinding that is forced through our frames would end the process.
pub(crate) fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
    let mut before: c_int = 0;
    // SAFETY: a live out-pointer.
    if unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) } != 0
        || before != CANCEL_ENABLE
    {
        return body();
    }
    inside::with(|own| own.cancel.set(before + 1));
    let answer = body();
    inside::with(|own| own.cancel.set(0));
    restore_cancel(before + 1);
    answer
}

fn restore_cancel(kept: c_int) {
    if kept > 0 {
        let mut unwanted: c_int = 0;
        // SAFETY: a state that the same function gave; a live out-pointer.
        unsafe { pthread_setcancelstate(kept - 1, &raw mut unwanted) };
    }
}

const CANCEL_ENABLE: c_int = 0;
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Why a hook lets the driver answer the caller's own arguments, unchanged. Not an error.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Aside {
    /// This process has no quota, is setuid, or belongs to a group that nobody limits.
    NotLimited,
    /// CUDA has not been initialised here (a child after `fork`, a call before `cuInit`): the driver has its own answer.
    NotInitialised,
    /// No context is current on the calling thread: the driver says so itself.
    NoContext,
    /// A NULL out-pointer or a size of zero: only the driver knows what it makes of it.
    DriverDecides,
    /// A pointer or handle that this process did not allocate through us.
    Unknown,
    /// The stream is being captured: nothing is allocated or launched now.
    Capturing,
    /// Memory that is not the device's: host or NUMA memory, arrays without backing.
    NotDeviceMemory,
    /// The thread cannot do without more ado what it came for ([`at_once`]); the hook goes its whole way.
    NotAtOnce,
    /// The quota of this process cannot be enforced, and `cuInit` has said so or would. The one reason for which the driver
    /// is *not* called: it may have been initialised all the same, and nothing is silently unlimited.
    Refused,
}

/// Runs a hook's body. `call` is the driver's function with the caller's arguments; `answered` holds what it last
/// answered.
///
/// A call from inside another hook of this thread (the driver calling its own exported functions) goes to the driver. A hook
/// that a signal handler has left by `longjmp` is not one that this thread is inside of. A
/// panic is swallowed: the driver is called if the body had not called it, else its answer stands.
#[inline]
pub(crate) fn run<R: Absent>(
    answered: &Cell<Option<R>>,
    call: &impl Fn() -> R,
    body: impl FnOnce() -> Result<R, Aside>,
) -> R {
    inside::with(|own| {
        let here = core::ptr::from_ref(answered).addr();
        let outer = own.hook.get();
        if outer != 0 {
            if is_within(here, outer) {
                return call();
            }
            put_back();
        }
        own.hook.set(here);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        own.hook.set(0);
        match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(Aside::Refused)) => R::REFUSED,
            Ok(Err(_aside)) => call(),
            Err(payload) => {
                // Dropping the payload could panic again.
                core::mem::forget(payload);
                answered.get().unwrap_or_else(call)
            }
        }
    })
}

/// A borrowed closure of whatever type. As `&dyn Fn() -> A`, without a table in the file and the relocations of one: there are
/// hundreds of hooks, and each process has a copy of both.
#[derive(Copy, Clone)]
pub(crate) struct Erased<'a, A> {
    closure: *const (),
    call: unsafe fn(*const ()) -> A,
    borrowed: PhantomData<&'a ()>,
}

impl<'a, A: 'a> Erased<'a, A> {
    #[inline]
    pub(crate) fn of<F: Fn() -> A>(closure: &'a F) -> Self {
        unsafe fn call<A, F: Fn() -> A>(closure: *const ()) -> A {
            // SAFETY: the closure that `of` has borrowed, under its own type.
            unsafe { (*closure.cast::<F>())() }
        }
        Self {
            closure: core::ptr::from_ref(closure).cast(),
            call: call::<A, F>,
            borrowed: PhantomData,
        }
    }

    /// The same as a function, of one type for all.
    #[inline]
    pub(crate) fn function(self) -> impl Fn() -> A + use<'a, A> {
        // SAFETY: borrowed for as long as this lives, and `call` was made for its type.
        move || unsafe { (self.call)(self.closure) }
    }
}

/// A call of the driver with the caller's arguments, in a hook that has two ways: [`at_once`], and the whole one.
pub(crate) trait Call {
    /// Calls the driver.
    fn call(&self) -> CUresult;

    /// What the thread has for itself, on the short way: it does what that allows, and nothing else.
    fn at_once(&self) -> Option<&Own> {
        None
    }
}

impl Call for Erased<'_, CUresult> {
    fn call(&self) -> CUresult {
        self.function()()
    }
}

/// The call of [`at_once`].
pub(crate) struct AtOnce<'a, F> {
    call: F,
    own: &'a Own,
}

impl<F: Fn() -> CUresult> Call for AtOnce<'_, F> {
    #[inline(always)]
    fn call(&self) -> CUresult {
        self.own.hook.set(inside::here());
        let answer = (self.call)();
        self.own.hook.set(0);
        answer
    }

    #[inline(always)]
    fn at_once(&self) -> Option<&Own> {
        Some(self.own)
    }
}

/// The short way of a hook that counts nanoseconds: as [`run`], for a `body` that cannot panic, and has nothing to put back if it is
/// left while the driver is called. `None`: nothing was done, and the hook goes its whole way.
#[inline(always)]
pub(crate) fn at_once<F: Fn() -> CUresult>(
    call: F,
    body: impl FnOnce(&AtOnce<'_, F>) -> Result<CUresult, Aside>,
) -> Option<CUresult> {
    inside::with(|own| {
        if own.hook.get() != 0 {
            return None;
        }
        body(&AtOnce { call, own }).ok()
    })
}

/// [`run`], compiled once for all hooks that answer alike.
#[inline(never)]
pub(crate) fn run_cold<'a, R: Absent + 'a>(
    answered: &Cell<Option<R>>,
    call: &impl Fn() -> R,
    body: &Erased<'a, Result<R, Aside>>,
) -> R {
    run(answered, call, body.function())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Absent for u32 {
        const LIBRARY: Self = 100;
        const FUNCTION: Self = 101;
        const REFUSED: Self = 102;
    }

    /// Runs a body around a driver that counts its calls and answers their number.
    // In a frame of its own, as a hook is that the driver calls.
    #[inline(never)]
    fn guarded(body: impl FnOnce(&dyn Fn() -> u32) -> Result<u32, Aside>) -> (u32, u32) {
        let calls = Cell::new(0);
        let answered = Cell::new(None);
        let call = || {
            calls.set(calls.get() + 1);
            answered.set(Some(calls.get()));
            calls.get()
        };
        let answer = run(&answered, &call, || body(&call));
        (answer, calls.get())
    }

    #[test]
    fn an_answer_stands_and_standing_aside_asks_the_driver() {
        assert_eq!(guarded(|_| Ok(7)), (7, 0));
        assert_eq!(guarded(|call| Ok(call() + 10)), (11, 1));
        assert_eq!(guarded(|_| Err(Aside::Unknown)), (1, 1));
        assert_eq!(guarded(|_| Err(Aside::Refused)), (u32::REFUSED, 0));
    }

    #[test]
    fn a_panic_before_the_call_calls_and_after_it_does_not_again() {
        assert_eq!(guarded(|_| panic!("before")), (1, 1));
        assert_eq!(
            guarded(|call| {
                call();
                panic!("after")
            }),
            (1, 1)
        );
        assert_eq!(guarded(|_| Ok(7)), (7, 0), "the guard is open again");
    }

    #[test]
    fn a_hook_that_was_left_is_no_outer_one() {
        let place = 0_usize;
        let here = (&raw const place).addr();
        // It lay below this frame, which cannot have been called by it; or on another stack.
        for left in [here - (64 << 10), here + (64 << 20)] {
            inside::with(|own| own.hook.set(left));
            assert_eq!(guarded(|_| Ok(7)), (7, 0));
            assert_eq!(inside::with(|own| own.hook.get()), 0);
        }
    }

    #[test]
    fn a_hook_that_waits_is_no_outer_one() {
        let (answer, _) = guarded(|_| Ok(outside(|| guarded(|_| Ok(7)).0)));
        assert_eq!(answer, 7);
    }

    #[inline(never)]
    fn short(driver: impl Fn() -> CUresult) -> Option<CUresult> {
        at_once(driver, |call| {
            assert!(call.at_once().is_some());
            Ok(call.call())
        })
    }

    #[test]
    fn the_short_way_is_not_open_inside_of_a_hook() {
        let success = || CUresult::CUDA_SUCCESS;
        assert_eq!(short(success), Some(CUresult::CUDA_SUCCESS));
        let (went, _) = guarded(|_| Ok(short(success).is_some().into()));
        assert_eq!(went, 0);
        let left = at_once(success, |_| Err(Aside::NotAtOnce));
        assert_eq!((left, inside::with(|own| own.hook.get())), (None, 0));
    }

    #[test]
    fn a_call_from_inside_the_short_way_goes_to_the_driver() {
        let inner = Cell::new(None);
        let answer = short(|| {
            inner.set(Some(guarded(|_| Ok(7))));
            CUresult(5)
        });
        assert_eq!((answer, inner.get()), (Some(CUresult(5)), Some((1, 1))));
        assert_eq!(guarded(|_| Ok(7)), (7, 0), "the guard is open again");
    }

    #[test]
    fn a_call_from_inside_goes_to_the_driver() {
        let (answer, _) = guarded(|_| {
            let inner = guarded(|_| Ok(7));
            assert_eq!(inner, (1, 1));
            Ok(inner.0)
        });
        assert_eq!(answer, 1);
    }
}
