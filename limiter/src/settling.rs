//! Charging what the markers show that the GPU has passed.

use quota_abi::bucket::Kind;
use quota_abi::sync::Ordering::Relaxed;

use crate::device::OthersHad;
use crate::engine::Engine;
use crate::gate::Place;
use crate::gpu::{Gpu, Passed};
use crate::settler::Each;
use crate::siblings::cover;
use crate::terms::Whose;
use crate::thread::Thread;

/// Streams that are looked at in vain before a settler leaves the rest for later.
const UNPASSED: u32 = 16;

impl Engine {
    /// Charges what the markers show that the GPU has passed.
    pub(crate) fn settle(&self, gpu: &impl Gpu, place: Place<'_>, now: u64) {
        let Place {
            index,
            device,
            account,
        } = place;
        device.siblings.look(account, now);
        if device.flight.is_empty() {
            return;
        }
        let Some(mut settler) = device.settler.try_lock() else {
            return;
        };
        let mut unpassed = 0_u64;
        let pending = self
            .markers
            .pending_from(settler.begin_at(self.markers.oldest()));
        for (handle, marker) in pending.filter(|(_, marker)| marker.device() == index) {
            // What lies behind a marker that was not passed has not been passed either.
            let stream = 1 << (marker.stream().wrapping_mul(0x9e37_79b9) >> 26 & 63);
            if unpassed & stream != 0 {
                continue;
            }
            let estimate = marker.estimate.load(Relaxed);
            let mut ended = now;
            match marker
                .end()
                .map_or(Passed::Never, |event| gpu.passed(event))
            {
                Passed::No => {
                    if unpassed == 0 {
                        device.flight.lead(estimate);
                    }
                    marker.is_head(now);
                    unpassed |= stream;
                    if unpassed.count_ones() == UNPASSED {
                        settler.break_off_at(handle.index());
                        break;
                    }
                    continue;
                }
                Passed::Never => {}
                Passed::Yes => {
                    let siblings = device.siblings.had_work_since(marker.opened());
                    let others_had = |ended| match siblings {
                        true => OthersHad::Unknown,
                        false => device.others_had(account, marker.opened(), ended, now),
                    };
                    if let Some(settled) = settler.settle(gpu, marker, others_had) {
                        let contended = settled.contended;
                        if let Some(missed) = settled.missed_by {
                            device.missed_by(missed);
                        }
                        ended = settled.ended.min(now);
                        let covered = cover(account.terms, settled.on_host, now);
                        // What others of the container were charged for is not charged again, but no less than was thought.
                        let charge = settled.charge;
                        let charge = charge.min(estimate).max(charge - covered);
                        account.bucket.settle(estimate, charge);
                        if let Some(Each { range, whole }) = settled.launch {
                            let shape = marker.shape.load(Relaxed);
                            let function = marker.function.load(Relaxed);
                            let size = marker.size.load(Relaxed);
                            if contended {
                                let turns = !siblings && account.whose(now) != Whose::Anybodys;
                                self.costs.learn_at_most(
                                    shape,
                                    function,
                                    size,
                                    (range.1, whole),
                                    turns,
                                );
                            } else {
                                let launches = marker.shape_launches.load(Relaxed);
                                self.costs.learn(shape, function, size, range, launches);
                            }
                            let kind = if function == 0 {
                                Kind::Graph
                            } else {
                                Kind::Kernel
                            };
                            if !contended || account.bucket.typical(kind) == 0 {
                                account.bucket.learn(kind, range.1);
                            }
                            if settled.waited && !siblings {
                                self.costs.note_waiting(shape);
                            }
                        }
                    }
                }
            }
            device.flight.arrive(estimate, ended);
            self.markers.settled(handle);
        }
    }

    /// As [`Self::settle`], for a thread that is held: work on any device may be waiting for it.
    pub(crate) fn settle_all(&self, gpu: &impl Gpu, place: Place<'_>, now: u64) {
        self.settle(gpu, place, now);
        for (index, device) in self.devices.iter().enumerate() {
            if index != place.index
                && !device.flight.is_empty()
                && let Some(account) = device.account(now)
            {
                let place = Place {
                    index,
                    device,
                    account,
                };
                self.settle(gpu, place, now);
            }
        }
    }

    /// After the thread has waited for the GPU: settles what it can.
    pub fn resume(&self, gpu: &impl Gpu, thread: &Thread) {
        let Some(index) = thread.device.get().checked_sub(1) else {
            return;
        };
        let Some(device) = self.device(index) else {
            return;
        };
        if !device.flight.is_empty() {
            let now = gpu.now();
            if let Some(account) = device.account(now) {
                let place = Place {
                    index,
                    device,
                    account,
                };
                gpu.quietly(|| self.settle(gpu, place, now));
            }
        }
        device.rest();
    }
}
