//! Which calls are not allowed while something is being captured.

use std::sync::Arc;

use cuda_headers::driver::{CUresult, CUstreamCaptureMode as Mode};

use super::{MODE, Session, any, lanes};
use crate::ctx::Context;
use crate::engine::Kind;
use crate::stream::{of_context, thread_id};

/// Refuses a call that is unsafe during a capture, and invalidates the captures in whose way it is:
/// those that this thread has begun, unless relaxed, and, if this thread takes part in global mode,
/// everybody's in global mode.
pub(crate) fn check_unsafe_call() -> Result<(), CUresult> {
    let mode = MODE.get();
    if !any() || mode == Mode::CU_STREAM_CAPTURE_MODE_RELAXED {
        return Ok(());
    }
    let thread = thread_id();
    let mut all = lanes();
    let mut refused = false;
    for lane in all.get_or_insert_default().values() {
        let session = &lane.session;
        if stands_in_the_way(mode, thread, session.mode, session.thread) {
            session.invalidate();
            refused = true;
        }
    }
    if refused {
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    } else {
        Ok(())
    }
}

/// Whether a capture forbids unsafe calls to a thread.
fn stands_in_the_way(mode: Mode, thread: u64, capture: Mode, began: u64) -> bool {
    if thread == began {
        return capture != Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
    }
    mode == Mode::CU_STREAM_CAPTURE_MODE_GLOBAL && capture == Mode::CU_STREAM_CAPTURE_MODE_GLOBAL
}

/// Captures of streams with which the context's legacy stream is ordered.
pub(super) fn blocking_captures(context: &Context) -> Vec<Arc<Session>> {
    let blocking: Vec<u64> = of_context(context)
        .iter()
        .filter(|stream| stream.kind == Kind::Blocking)
        .map(|stream| stream.id)
        .collect();
    let mut all = lanes();
    let lanes = all.get_or_insert_default().iter();
    lanes
        .filter(|(id, _)| blocking.contains(id))
        .map(|(_, lane)| Arc::clone(&lane.session))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_whose_way() {
        let (global, local, relaxed) = (Mode(0), Mode(1), Mode(2));
        // The thread's own captures.
        assert!(stands_in_the_way(global, 1, global, 1));
        assert!(stands_in_the_way(local, 1, local, 1));
        assert!(!stands_in_the_way(global, 1, relaxed, 1));
        // Those of others.
        assert!(stands_in_the_way(global, 2, global, 1));
        assert!(!stands_in_the_way(local, 2, global, 1));
        assert!(!stands_in_the_way(global, 2, local, 1));
        assert!(!stands_in_the_way(global, 2, relaxed, 1));
    }
}
