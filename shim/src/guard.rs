//! The outermost frame of every hook: re-entrance, panics, standing aside.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::hook::Absent;

thread_local! {
    /// Whether this thread is inside a hook. No destructor: libraries call the driver after a thread's destructors ran.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
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
    /// The quota of this process cannot be enforced, and `cuInit` has said so or would. The one reason for which the driver
    /// is *not* called: it may have been initialised all the same, and nothing is silently unlimited.
    Refused,
}

/// Runs a hook's body. `call` is the driver's function with the caller's arguments; `answered` holds what it last
/// answered.
///
/// A call from inside another hook of this thread (the driver calling its own exported functions) goes to the driver. A
/// panic is swallowed: the driver is called if the body had not called it, else its answer stands.
#[inline]
pub(crate) fn run<R: Absent>(
    answered: &Cell<Option<R>>,
    call: &impl Fn() -> R,
    body: impl FnOnce() -> Result<R, Aside>,
) -> R {
    // A thread that has no thread-locals any more is let through.
    INSIDE
        .try_with(|inside| {
            if inside.replace(true) {
                return call();
            }
            let outcome = catch_unwind(AssertUnwindSafe(body));
            inside.set(false);
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
        .unwrap_or_else(|_| call())
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
    fn a_call_from_inside_goes_to_the_driver() {
        let (answer, _) = guarded(|_| {
            let inner = guarded(|_| Ok(7));
            assert_eq!(inner, (1, 1));
            Ok(inner.0)
        });
        assert_eq!(answer, 1);
    }
}
