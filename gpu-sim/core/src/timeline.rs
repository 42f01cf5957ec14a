//! One process's time on one device.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::simulation::Simulation;
use crate::slices::{Door, Stop};

/// How far a process has got, as last computed.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Real time of the computation.
    at: u64,
    /// `tau` then.
    consumed: u64,
}

/// The `tau` axis of one process on one device, and the work on it.
pub struct Timeline {
    simulation: Arc<Simulation>,
    slot: usize,
    device: usize,
    known: Known,
    horizon: u64,
}

impl Timeline {
    pub(crate) fn new(simulation: Arc<Simulation>, slot: usize, device: usize) -> Self {
        let mut timeline = Self {
            simulation,
            slot,
            device,
            known: Known::default(),
            horizon: 0,
        };
        // The slot's former owner left its axis somewhere; ours goes on from there.
        let locked = timeline.simulation.lock();
        let consumed = locked.shared().devices[device].time.lanes[timeline.slot].consumed;
        let at = locked.shared().devices[device].time.last;
        timeline.door().horizon.store(consumed, SeqCst);
        drop(locked);
        timeline.known = Known { at, consumed };
        timeline.horizon = consumed;
        timeline
    }

    /// `tau` as last computed.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.known.consumed
    }

    /// Real time up to which it was last computed.
    #[must_use]
    pub fn computed_at(&self) -> u64 {
        self.known.at
    }

    /// `tau` until which work has been submitted.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The highest that `tau` can be at `now`.
    #[must_use]
    pub fn at_most(&self, now: u64) -> u64 {
        let exclusive = self.known.consumed + now.saturating_sub(self.known.at);
        exclusive.min(self.horizon.max(self.known.consumed))
    }

    /// The earliest real time at which `tau` can be reached.
    #[must_use]
    pub fn earliest(&self, tau: u64) -> u64 {
        self.known
            .at
            .saturating_add(tau.saturating_sub(self.known.consumed))
    }

    /// Deals the device's time up to `until`, or until this process gets to `stop`. Returns the
    /// real time reached. Time that others have already had dealt is not dealt again.
    pub fn advance(&mut self, until: u64, stop: Option<u64>) -> u64 {
        let mut locked = self.simulation.lock();
        let slice = locked.shared().slice_ns;
        let doors = &self.simulation.region.doors[self.device];
        let time = &mut locked.device_mut(self.device).time;
        let stop = stop.map(|tau| Stop {
            slot: self.slot,
            tau,
        });
        time.advance(doors, slice, until, stop);
        self.known = Known {
            at: time.last,
            consumed: time.lanes[self.slot].consumed,
        };
        self.known.at
    }

    /// When `tau` was reached; the last computed time when that is no longer known.
    #[must_use]
    pub fn real_of(&self, tau: u64) -> u64 {
        let locked = self.simulation.lock();
        let time = &locked.shared().devices[self.device].time;
        time.real_of(self.slot, tau).unwrap_or(self.known.at)
    }

    /// Announces that work now lasts until `horizon`, given that the process surely still has work
    /// at `now`. Without the shared mutex; false: it may be idle, use [`Timeline::submit`].
    pub fn extend(&mut self, horizon: u64, now: u64) -> bool {
        // Dealt alone it would get to the old horizon no earlier than this.
        if now >= self.earliest(self.horizon) {
            return false;
        }
        if horizon > self.horizon {
            self.horizon = horizon;
            self.door().horizon.store(horizon, SeqCst);
        }
        // SYNC POINT with `DeviceTime::drained`.
        self.door().active.load(SeqCst) != 0
    }

    /// Announces that work lasts until `horizon` (lower than before, too: a kernel that seemed to
    /// spin for ever has ended). The time up to now must have been dealt.
    pub fn submit(&mut self, horizon: u64) {
        let mut locked = self.simulation.lock();
        let slice = locked.shared().slice_ns;
        let doors = &self.simulation.region.doors[self.device];
        self.horizon = horizon;
        doors[self.slot].horizon.store(horizon, SeqCst);
        let time = &mut locked.device_mut(self.device).time;
        if horizon > time.lanes[self.slot].consumed {
            time.activate(doors, self.slot, slice);
        }
    }

    /// How many processes want the device, this one included.
    #[must_use]
    pub fn contenders(&self) -> u32 {
        self.simulation.lock().shared().devices[self.device]
            .time
            .contenders()
    }

    fn door(&self) -> &Door {
        &self.simulation.region.doors[self.device][self.slot]
    }
}
