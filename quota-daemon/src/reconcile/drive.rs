//! Readings in, comparisons out: the thread that reconciles after each reading, and what the daemon asks it for.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Client, Declared, Input, Outcome, Reconciler, kill, log, look};
use crate::gpu::{Pace, Reading, Source, Watcher};
use crate::log::allowed;
use crate::metrics::Counters;
use crate::model::{Device, Uuid};
use crate::report::DeviceStatus;

/// The daemon's core, as the reconciliation sees it.
pub trait Registry: Send + Sync {
    /// The registered processes that live, with what their ledgers say at this moment.
    fn clients(&self) -> Vec<Client>;
    /// The containers.
    fn declared(&self) -> Vec<Declared>;
    /// What a context of a container is charged on a device.
    fn charges(&self) -> BTreeMap<(String, Uuid), u64>;
    /// What a predecessor has measured contexts to take.
    fn contexts(&self) -> BTreeMap<Uuid, u64> {
        BTreeMap::new()
    }
    /// Takes what was found.
    fn reconciled(&self, outcome: &Outcome);
    /// There are other devices than before.
    fn devices_changed(&self);
}

/// The GPUs, watched and compared with the ledgers.
pub struct Gpus {
    watcher: Watcher,
    bell: Arc<Bell>,
    outcome: Mutex<Arc<Outcome>>,
}

/// Says that there is a new reading.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self, most: Duration) {
        let mut rung = self.rung.lock();
        let _ = self.changed.wait_while_for(&mut rung, |rung| !*rung, most);
        *rung = false;
    }
}

impl Gpus {
    /// Starts to read.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(source: impl Source + 'static, pace: Pace) -> io::Result<Arc<Self>> {
        let bell = Arc::new(Bell::default());
        let ringer = Arc::clone(&bell);
        let watcher = Watcher::start(source, pace, move || ringer.ring())?;
        Ok(Arc::new(Self {
            watcher,
            bell,
            outcome: Mutex::default(),
        }))
    }

    /// Starts to compare. To be called once, when the core knows its predecessor's clients: an unknown one is a stranger.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn serve(
        self: &Arc<Self>,
        registry: Arc<dyn Registry>,
        counters: Arc<Counters>,
        kill: bool,
    ) -> io::Result<()> {
        let mut reconciler = Reconciler::new();
        for (device, bytes) in registry.contexts() {
            reconciler.learned(device, bytes);
        }
        let mut round = Round {
            reconciler,
            registry,
            counters,
            kill,
            devices: Vec::new(),
        };
        let gpus = Arc::downgrade(self);
        let bell = Arc::clone(&self.bell);
        let body = move || round.run(&gpus, &bell);
        thread::Builder::new()
            .name("reconciler".to_owned())
            .spawn(body)?;
        Ok(())
    }

    /// Waits for the first reading, but no longer than so.
    #[must_use]
    pub fn first(&self, most: Duration) -> Arc<Reading> {
        self.watcher.first(most)
    }

    /// Asks for a reading soon.
    pub fn poke(&self) {
        self.watcher.poke();
    }

    /// The devices that are known.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        let reading = self.watcher.latest();
        reading
            .devices
            .iter()
            .map(|device| device.device.clone())
            .collect()
    }

    /// What is known of each device. What is promised of it, and who is active, others know.
    #[must_use]
    pub fn report(&self) -> Vec<DeviceStatus> {
        let reading = self.watcher.latest();
        let outcome = Arc::clone(&self.outcome.lock());
        let status = |device: &crate::gpu::DeviceReading| DeviceStatus {
            device: device.device.clone(),
            promised_bytes: 0,
            used_bytes: device.used_bytes,
            utilization_percent: device.utilization_percent,
            trouble: device.trouble.clone(),
            active: 0,
            unregistered: outcome
                .unregistered
                .get(&device.device.uuid)
                .cloned()
                .unwrap_or_default(),
        };
        reading.devices.iter().map(status).collect()
    }

    /// What every process on a device holds, by NVML.
    #[must_use]
    pub fn held(&self) -> BTreeMap<(u32, Uuid), u64> {
        let reading = self.watcher.latest();
        let mut held = BTreeMap::new();
        for device in &reading.devices {
            for process in device.processes.iter().flatten() {
                if let Some(bytes) = process.bytes {
                    held.insert((process.pid, device.device.uuid), bytes);
                }
            }
        }
        held
    }

    /// What a person should know.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let trouble = self.watcher.latest().trouble.clone();
        let outcome = Arc::clone(&self.outcome.lock());
        trouble
            .into_iter()
            .chain(outcome.warnings.iter().cloned())
            .collect()
    }
}

/// What the reconciling thread has.
struct Round {
    reconciler: Reconciler,
    registry: Arc<dyn Registry>,
    counters: Arc<Counters>,
    kill: bool,
    devices: Vec<Device>,
}

impl Round {
    fn run(&mut self, gpus: &Weak<Gpus>, bell: &Bell) {
        /// A reading that hangs rings no bell: its trouble is noticed all the same.
        const MOST: Duration = Duration::from_secs(4);
        let mut last = (0, None);
        while let Some(gpus) = gpus.upgrade() {
            let reading = gpus.watcher.latest();
            let this = (reading.number, reading.trouble.clone());
            if this != last && reading.number > 0 {
                self.round(&gpus, &reading);
                last = this;
            }
            drop(gpus);
            bell.wait(MOST);
        }
    }

    fn round(&mut self, gpus: &Gpus, reading: &Reading) {
        let devices = reading
            .devices
            .iter()
            .map(|device| device.device.clone())
            .collect();
        if self.devices != devices {
            self.devices = devices;
            self.registry.devices_changed();
        }
        let clients = self.registry.clients();
        let containers = self.registry.declared();
        let input = Input {
            reading,
            clients: &clients,
            containers: &containers,
            charges: &self.registry.charges(),
            kill: self.kill,
            look: &look,
            own: std::process::id(),
        };
        let outcome = self.reconciler.step(&input);
        log(&outcome.events);
        self.registry.reconciled(&outcome);
        for target in &outcome.kill {
            self.kill(target, &containers);
        }
        *gpus.outcome.lock() = Arc::new(outcome);
    }

    fn kill(&mut self, target: &kill::Target, containers: &[Declared]) {
        let registry = Arc::clone(&self.registry);
        let is_registered = |pid| registry.clients().iter().any(|client| client.pid == pid);
        let killed = kill::kill(target, containers, is_registered);
        let kill::Target {
            pid,
            container,
            program,
            ..
        } = target;
        if killed.is_ok() {
            self.reconciler.killed(target);
            Counters::add(&self.counters.kills);
        }
        let Some(more) = allowed(container, "kill") else {
            return;
        };
        let suppressed = (more > 0).then_some(more);
        match killed {
            Ok(()) => tracing::warn!(
                pid,
                program,
                container,
                suppressed,
                "killed an unregistered process, as configured"
            ),
            Err(left) => tracing::info!(
                pid,
                program,
                container,
                suppressed,
                "left an unregistered process alone: {left}"
            ),
        }
    }
}
