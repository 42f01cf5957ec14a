//! A simulation as a process sees it.

use std::path::{Path, PathBuf};

use crate::account::Usage;
use crate::clock::now_ns;
use crate::config::Config;
use crate::layout::{Device, Region, Shared};
use crate::mutex::Locked;
use crate::region::{self, OpenError};

/// A mapped simulation.
pub struct Simulation {
    pub(crate) region: &'static Region,
    config: Config,
}

/// A device of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its place among the simulation's devices.
    pub index: usize,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its memory in bytes.
    pub total: u64,
    /// For a MIG instance, the index of its whole GPU.
    pub parent: Option<usize>,
}

/// A process that takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its process id in its own pid namespace.
    pub pid: u32,
    /// The label of its tenant.
    pub label: String,
    /// What it holds of the device.
    pub usage: Usage,
    /// GPU time it has had on the device.
    pub busy_ns: u64,
    /// Contexts it has on the device.
    pub contexts: u32,
    /// Its slot, for [`Simulation::busy_in_window`].
    pub slot: usize,
}

impl Simulation {
    /// Opens the simulation that `config` describes, creating it where there is none. When nobody
    /// takes part in an existing one and `config` asks for other devices, it gets those.
    ///
    /// # Errors
    /// The shared file cannot be opened, created or mapped.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let simulation = Self {
            region: region::open(&config)?,
            config,
        };
        simulation.adopt_config();
        Ok(simulation)
    }

    /// Opens the simulation that the environment names.
    ///
    /// # Errors
    /// A variable is not understood, or the shared file cannot be opened, created or mapped.
    pub fn from_env() -> Result<Self, OpenError> {
        Self::open(Config::from_env()?)
    }

    /// Removes the file of a simulation; processes that have it mapped go on using it.
    ///
    /// # Errors
    /// There is no such file, or it cannot be removed.
    pub fn remove(path: &Path) -> std::io::Result<()> {
        std::fs::remove_file(path)
    }

    /// The file that is shared.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.config.path.clone()
    }

    /// What the environment of this process said.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes that the first context of a process holds on a device.
    #[must_use]
    pub fn context_bytes(&self) -> u64 {
        self.lock().shared().context_bytes
    }

    /// The devices.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let locked = self.lock();
        let shared = locked.shared();
        shared.devices[..shared.device_count as usize]
            .iter()
            .enumerate()
            .map(|(index, device)| DeviceInfo {
                index,
                uuid: device.uuid,
                total: device.total,
                parent: device.parent(),
            })
            .collect()
    }

    /// Total bytes of a device and what is held of it by all processes that live.
    #[must_use]
    pub fn memory(&self, device: usize) -> (u64, Usage) {
        let mut locked = self.lock();
        locked.reap();
        let device = &locked.shared().devices[device];
        (device.total, device.account.usage())
    }

    /// The processes that have a context or memory on a device.
    #[must_use]
    pub fn processes(&self, device: usize) -> Vec<ProcessInfo> {
        let mut locked = self.lock();
        locked.reap();
        locked.advance(device, now_ns());
        let shared = locked.shared();
        shared
            .living()
            .filter(|slot| {
                let process = &shared.processes[*slot];
                process.contexts[device] > 0 || process.accounts[device].now.held > 0
            })
            .map(|slot| shared.process_info(slot, device))
            .collect()
    }

    /// Nanoseconds within window `window` (of [`crate::WINDOW_NS`] each, counted from the clock's
    /// zero) in which the device was busy, or busy for the process in `slot`.
    #[must_use]
    pub fn busy_in_window(&self, device: usize, slot: Option<usize>, window: u64) -> u64 {
        let mut locked = self.lock();
        locked.advance(device, now_ns());
        let time = &locked.shared().devices[device].time;
        time.busy_in_window(slot, window)
    }

    /// Zeroes peaks and busy times.
    pub fn reset_account(&self) {
        let mut locked = self.lock();
        locked.reap();
        let count = locked.shared().device_count as usize;
        for device in 0..count {
            locked.advance(device, now_ns());
        }
        let shared = locked.shared_mut();
        shared.clear_peaks();
        for device in &mut shared.devices[..count] {
            device.retired_busy_ns = 0;
            device.time.busy_ns = 0;
            for lane in &mut device.time.lanes {
                lane.busy_ns = 0;
            }
        }
        for tenant in &mut shared.tenants {
            tenant.retired_busy_ns = [0; crate::MAX_DEVICES];
        }
    }

    pub(crate) fn lock(&self) -> LockedRegion {
        let locked = self.region.mutex.lock();
        let mut guard = LockedRegion(self.region, std::marker::PhantomData);
        if locked == Locked::OwnerDied {
            guard.repair();
        }
        guard
    }

    fn adopt_config(&self) {
        let Some(wanted) = &self.config.devices else {
            return;
        };
        let mut locked = self.lock();
        locked.reap();
        let shared = locked.shared_mut();
        let same =
            shared.device_count as usize == wanted.len()
                && shared.devices.iter().zip(wanted).all(|(device, spec)| {
                    device.total == spec.total && device.parent() == spec.parent
                });
        if shared.living().next().is_none() && !same {
            region::fix_devices(shared, &self.config);
        }
    }
}

/// The shared state, locked.
pub(crate) struct LockedRegion(
    pub(crate) &'static Region,
    std::marker::PhantomData<*const ()>,
);

impl LockedRegion {
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the mutex is held for as long as `self` lives, and `self` is borrowed.
        unsafe { &*self.0.shared.get() }
    }

    pub(crate) fn shared_mut(&mut self) -> &mut Shared {
        // SAFETY: the mutex is held for as long as `self` lives, and `self` is borrowed mutably.
        unsafe { &mut *self.0.shared.get() }
    }

    pub(crate) fn device_mut(&mut self, device: usize) -> &mut Device {
        &mut self.shared_mut().devices[device]
    }

    /// Deals a device's time up to `until`.
    pub(crate) fn advance(&mut self, device: usize, until: u64) {
        let slice = self.shared().slice_ns;
        let doors = &self.0.doors[device];
        self.device_mut(device)
            .time
            .advance(doors, slice, until, None);
    }

    /// Gives back what dead processes held.
    pub(crate) fn reap(&mut self) {
        for slot in 0..self.shared().slots_used as usize {
            if self.shared().processes[slot].generation != 0 && !self.0.alive[slot].alive() {
                self.retire(slot);
            }
        }
    }

    fn retire(&mut self, slot: usize) {
        let now = now_ns();
        let slice = self.shared().slice_ns;
        self.shared_mut().let_go_of_all(slot);
        for device in 0..self.shared().device_count as usize {
            // Its queue ends here; what it was dealt until now, it has had.
            let lane = &self.shared().devices[device].time.lanes[slot];
            if self.0.doors[device][slot]
                .horizon
                .load(std::sync::atomic::Ordering::SeqCst)
                > lane.consumed
            {
                self.advance(device, now);
            }
            let doors = &self.0.doors[device];
            let time = &mut self.device_mut(device).time;
            time.remove(doors, slot, slice);
            let busy = std::mem::take(&mut time.lanes[slot].busy_ns);
            let shared = self.shared_mut();
            let tenant = shared.processes[slot].tenant as usize;
            shared.tenants[tenant].retired_busy_ns[device] += busy;
            let held = shared.processes[slot].accounts[device].now;
            shared.refund(slot, device, held);
            shared.processes[slot].contexts[device] = 0;
        }
        self.shared_mut().processes[slot].generation = 0;
    }

    /// Makes the state whole after an owner of the mutex died in the middle of a change.
    fn repair(&mut self) {
        let slice = self.shared().slice_ns;
        for device in 0..self.shared().device_count as usize {
            let doors = &self.0.doors[device];
            self.device_mut(device).time.repair(doors, slice);
        }
        self.shared_mut().recompute_sums();
        self.reap();
    }
}

impl Drop for LockedRegion {
    fn drop(&mut self) {
        // SAFETY: locked when this value was made, by this thread: it is not Send.
        unsafe { self.0.mutex.unlock() };
    }
}

impl Device {
    pub(crate) fn parent(&self) -> Option<usize> {
        usize::try_from(self.parent).ok()?.checked_sub(1)
    }
}

impl Shared {
    /// Slots of registered processes.
    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots_used as usize).filter(|slot| self.processes[*slot].generation != 0)
    }

    pub(crate) fn process_info(&self, slot: usize, device: usize) -> ProcessInfo {
        let process = &self.processes[slot];
        ProcessInfo {
            pid: process.pid,
            label: self.tenants[process.tenant as usize].label().to_owned(),
            usage: process.accounts[device].usage(),
            busy_ns: self.devices[device].time.lanes[slot].busy_ns,
            contexts: process.contexts[device],
            slot,
        }
    }
}
