//! Taking markers away from what is about to be destroyed.

use quota_abi::layout::DEVICES;
use quota_abi::sync::{AtomicU32, Ordering::Relaxed};

use crate::engine::Engine;
use crate::gate::{LONGEST_WAIT, Place};
use crate::gpu::{Context, Event, Gpu};
use crate::shape::Stream;

impl Engine {
    /// A stream is about to be destroyed.
    pub fn drop_stream(&self, gpu: &impl Gpu, stream: Stream) {
        let patience = Patience::begin(gpu);
        self.markers.drop_stream(stream, || patience.wait(gpu));
        self.next_epoch();
    }

    /// A context (or every one) is about to be destroyed or reset. `events_die`: its events go with it;
    /// else they are destroyed here.
    pub fn drop_context(&self, gpu: &impl Gpu, context: Option<Context>, events_die: bool) {
        let patience = Patience::begin(gpu);
        let now = gpu.now();
        // Until the markers are gone, nobody else may settle one or make one the reference.
        let settlers: [_; DEVICES] = core::array::from_fn(|index| {
            let device = self.device(index)?;
            let account = device.account(now)?;
            let place = Place {
                index,
                device,
                account,
            };
            // What has ended is settled while its events can still be asked.
            gpu.quietly(|| self.settle(gpu, place, now));
            loop {
                let settler = device.settler.try_lock();
                if settler.is_some() || !patience.wait(gpu) {
                    return settler;
                }
            }
        });
        let destroy = |event: Option<Event>| {
            if let Some(event) = event.filter(|_| !events_die) {
                gpu.quietly(|| gpu.destroy(event));
            }
        };
        self.markers.drop_context(
            context,
            || patience.wait(gpu),
            |marker, pending| {
                if pending && let Some(device) = self.device(marker.device()) {
                    device.flight.arrive(marker.estimate.load(Relaxed), now);
                }
                marker.strip().into_iter().for_each(destroy);
            },
        );
        for mut settler in settlers.into_iter().flatten() {
            destroy(settler.drop_context(context));
        }
        self.next_epoch();
    }
}

/// How long a hook on a destruction waits for another thread that is in the middle of a call of ours.
struct Patience(u64);

impl Patience {
    fn begin(gpu: &impl Gpu) -> Self {
        Self(gpu.now().saturating_add(LONGEST_WAIT))
    }

    fn wait(&self, gpu: &impl Gpu) -> bool {
        let word = AtomicU32::new(0);
        let now = gpu.now();
        if now < self.0 {
            gpu.sleep_until(now + 50_000, &word, 0);
        }
        now < self.0
    }
}
