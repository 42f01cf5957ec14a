//! This process as a member of a simulation.

use std::sync::Arc;

use crate::account::{Amount, OutOfMemory, Usage};
use crate::clock::now_ns;
use crate::layout::MAX_PROCESSES;
use crate::region::OpenError;
use crate::simulation::Simulation;
use crate::timeline::Timeline;

/// A process that takes part in a simulation: it can hold memory and be dealt time.
pub struct Member {
    simulation: Arc<Simulation>,
    pub(crate) slot: usize,
}

impl Member {
    /// Registers this process. The calling thread must live as long as the process: when it ends,
    /// the process counts as dead, and everything that it held is given back.
    ///
    /// # Errors
    /// As many processes take part as the simulation can hold.
    pub fn register(simulation: Arc<Simulation>) -> Result<Self, OpenError> {
        let label = simulation.config().tenant.clone();
        let mut locked = simulation.lock();
        locked.reap();
        let region = locked.0;
        let shared = locked.shared_mut();
        let slot = (0..MAX_PROCESSES)
            .find(|slot| shared.processes[*slot].generation == 0)
            .ok_or(OpenError::Full)?;
        // SAFETY: the slot is free and the shared mutex is held.
        unsafe { region.alive[slot].claim() };
        let tenant = shared.tenant(&label);
        shared.next_generation += 1;
        let generation = shared.next_generation;
        let process = &mut shared.processes[slot];
        process.pid = std::process::id();
        process.accounts = Default::default();
        process.contexts = Default::default();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "both are small table sizes"
        )]
        {
            process.tenant = tenant as u32;
            shared.slots_used = shared.slots_used.max(slot as u32 + 1);
        }
        shared.processes[slot].generation = generation;
        drop(locked);
        Ok(Self { simulation, slot })
    }

    /// The simulation.
    #[must_use]
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Takes `held` bytes of `device`, of which the application asked for `requested`.
    ///
    /// # Errors
    /// The device has fewer free bytes, those of dead processes included. Nothing is changed.
    pub fn charge(&self, device: usize, held: u64, requested: u64) -> Result<(), OutOfMemory> {
        self.take(device, exact(held, requested))
    }

    /// Gives back what `charge` took.
    pub fn refund(&self, device: usize, held: u64, requested: u64) {
        self.give_back(device, exact(held, requested));
    }

    /// Takes `bytes` of `device` that the driver reserves ahead of requests, in steps of its own.
    ///
    /// # Errors
    /// As [`Self::charge`].
    pub fn charge_reserve(&self, device: usize, bytes: u64) -> Result<(), OutOfMemory> {
        self.take(device, reserve(bytes))
    }

    /// Gives back what `charge_reserve` took.
    pub fn refund_reserve(&self, device: usize, bytes: u64) {
        self.give_back(device, reserve(bytes));
    }

    fn take(&self, device: usize, amount: Amount) -> Result<(), OutOfMemory> {
        let mut locked = self.simulation.lock();
        let slot = self.slot;
        let peaks = locked.shared().would_peak(slot, device, amount);
        if !peaks && locked.shared_mut().charge(slot, device, amount).is_ok() {
            return Ok(());
        }
        locked.reap();
        locked.shared_mut().charge(slot, device, amount)
    }

    fn give_back(&self, device: usize, amount: Amount) {
        let mut locked = self.simulation.lock();
        locked.shared_mut().refund(self.slot, device, amount);
    }

    /// Counts a new context on `device`; the first one holds the context overhead.
    ///
    /// # Errors
    /// The device has no room for the context.
    pub fn context_created(&self, device: usize) -> Result<(), OutOfMemory> {
        let overhead = Amount::overhead(self.simulation.context_bytes());
        let mut locked = self.simulation.lock();
        let slot = self.slot;
        let first = locked.shared().processes[slot].contexts[device] == 0;
        if first && locked.shared_mut().charge(slot, device, overhead).is_err() {
            locked.reap();
            locked.shared_mut().charge(slot, device, overhead)?;
        }
        locked.shared_mut().processes[slot].contexts[device] += 1;
        Ok(())
    }

    /// Counts a context less on `device`.
    pub fn context_destroyed(&self, device: usize) {
        let mut locked = self.simulation.lock();
        let slot = self.slot;
        let overhead = Amount::overhead(locked.shared().context_bytes);
        let contexts = &mut locked.shared_mut().processes[slot].contexts[device];
        *contexts = contexts.saturating_sub(1);
        if *contexts == 0 {
            locked.shared_mut().refund(slot, device, overhead);
        }
    }

    /// What this process holds of `device`.
    #[must_use]
    pub fn usage(&self, device: usize) -> Usage {
        self.simulation.lock().shared().processes[self.slot].accounts[device].usage()
    }

    /// GPU time that this process has had on `device`.
    #[must_use]
    pub fn busy_ns(&self, device: usize) -> u64 {
        let mut locked = self.simulation.lock();
        locked.advance(device, now_ns());
        locked.shared().devices[device].time.lanes[self.slot].busy_ns
    }

    /// This process's time on `device`.
    #[must_use]
    pub fn timeline(&self, device: usize) -> Timeline {
        Timeline::new(Arc::clone(&self.simulation), self.slot, device)
    }
}

/// Bytes whose number a request told.
pub(crate) const fn exact(held: u64, requested: u64) -> Amount {
    Amount {
        held,
        requested,
        exact: requested,
    }
}

/// Bytes that the driver took of itself, for requests to come.
const fn reserve(bytes: u64) -> Amount {
    Amount {
        held: bytes,
        requested: bytes,
        exact: 0,
    }
}
