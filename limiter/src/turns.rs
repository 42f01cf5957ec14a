//! Where a launch waits for its container's turn, where the daemon deals turns.
//!
//! As at the gate, work in flight may be waiting for this very launch: so no wait is longer than the gate's, nor goes on when
//! work seems to wait for it. What a thread has taken from the bucket it spends without asking whose turn it is: that is a
//! tenth of a millisecond at most.

use quota_abi::sync::Ordering::Acquire;

use crate::engine::Engine;
use crate::gate::{LONGEST_WAIT, Place};
use crate::gpu::Gpu;
use crate::thread::Thread;
use crate::waits::Wait;

impl Engine {
    /// Waits until it is the container's turn, for a while. True if it had to.
    pub(crate) fn await_turn(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        stream: usize,
        price: i64,
    ) -> bool {
        let begin = gpu.now();
        if place.account.may_run(begin) {
            return false;
        }
        self.close_all(gpu, thread, stream);
        self.settle_all(gpu, place, begin);
        let level = place.account.bucket.level();
        let word = place.account.wake_word();
        let mut now = begin;
        let forced = loop {
            // SYNC POINT with the daemon, which changes the turn before it raises the word.
            let seen = word.load(Acquire);
            if place.account.may_run(now) {
                break false;
            }
            let relief = self.relief(place, stream, 0, begin);
            let deadline = relief.min(begin + LONGEST_WAIT);
            if now >= deadline {
                if now >= relief {
                    place.device.flight.relieve();
                }
                break true;
            }
            self.ring(gpu, place.account, now);
            place.account.terms.set_busy(true);
            gpu.sleep_until(deadline, word, seen);
            now = gpu.now();
            self.settle_all(gpu, place, now);
        };
        place.count_wait(Wait {
            waited: now - begin,
            now,
            price,
            level,
            forced,
        });
        true
    }
}
