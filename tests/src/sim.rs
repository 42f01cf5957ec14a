//! One simulation per test, under a name of its own, gone from `/dev/shm` when the test ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use quota_abi::group::Group;

use crate::account::Account;
use crate::client::{Client, Running};
use crate::limits::Limits;
use crate::program::program;

/// A simulated machine: its devices, its driver, and the group that clients join by default.
#[derive(Debug)]
pub struct Sim {
    name: String,
    env: Vec<(String, String)>,
    groups: Mutex<BTreeSet<String>>,
    limits: Arc<Limits>,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// A simulation with one device of 24 GiB.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{count}", std::process::id());
        Self {
            name,
            env: Vec::new(),
            groups: Mutex::default(),
            limits: Arc::default(),
        }
    }

    /// Adds a variable of the simulator's (see its README) for every client.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.env.push((variable.into(), value.into()));
        self
    }

    /// What a program needs to find this simulation: its variables, nothing of a quota.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        std::iter::once(("GPU_SIM", self.name.as_str())).chain(own)
    }

    /// Notes what a daemon lets a container hold, in the words of its configuration, for the comparison at the end.
    pub fn allow(&self, container: &str, memory: &str) {
        let variables = [
            ("GPU_QUOTA_GROUP", container),
            ("GPU_SIM_TENANT", container),
            ("GPU_QUOTA_MEMORY", memory),
        ];
        let _ = self
            .limits
            .note(&variables.map(|(name, value)| (name.into(), value.into())));
    }

    /// The simulation's name, which is the name of its clients' default group as well.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A group name that belongs to this simulation and is cleaned up with it.
    #[must_use]
    pub fn group(&self, suffix: &str) -> String {
        let group = format!("{}-{suffix}", self.name);
        self.groups.lock().unwrap().insert(group.clone());
        group
    }

    /// Cleans up a group that a client has named by itself, as `quota-daemon run` does.
    pub fn adopt(&self, client: &Running) {
        let environment = std::fs::read(format!("/proc/{}/environ", client.pid())).unwrap();
        let group = environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(b"GPU_QUOTA_GROUP="))
            .unwrap_or_else(|| panic!("pid {} has no group", client.pid()));
        let group = String::from_utf8(group.to_vec()).unwrap();
        self.groups.lock().unwrap().insert(group);
    }

    /// The file that the clients' default group shares, once one of them has made it.
    #[must_use]
    pub fn region(&self) -> PathBuf {
        region(&self.group("default"))
    }

    /// A program of `programs/` as a client of this simulation, with the shim preloaded.
    pub fn client(&self, name: &str) -> Client {
        self.command(&program(name))
    }

    /// Any executable as a client of this simulation, with the shim preloaded.
    pub fn command(&self, executable: &Path) -> Client {
        let mut client = Client::new(executable)
            .noted_in(&self.limits)
            .env("GPU_SIM", &self.name)
            .env("GPU_QUOTA_GROUP", self.group("default"));
        for (variable, value) in &self.env {
            client = client.env(variable, value);
        }
        client
    }

    /// What the simulated devices hold and did.
    #[must_use]
    pub fn account(&self) -> Account {
        let finished = self.client("snapshot").bare().run();
        assert!(finished.success(), "snapshot: {finished:?}");
        serde_json::from_str(&finished.stdout).unwrap_or_else(|e| {
            panic!("the account is no JSON as agreed: {e}: {}", finished.stdout)
        })
    }
}

impl Sim {
    /// Compares the account with what every client was allowed: see [`crate::limits`]. Done for every simulation when it
    /// ends. How many sums were compared, or what exceeded its limit.
    ///
    /// # Errors
    /// In words.
    pub fn check_limits(&self) -> Result<usize, String> {
        if !self.file().exists() {
            return Ok(0);
        }
        self.limits.check(&self.account())
    }

    /// The file that the simulation lives in.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        // SAFETY: geteuid takes no argument and cannot fail.
        let uid = unsafe { libc::geteuid() };
        format!("/dev/shm/gpu-sim.{uid}.{}", self.name).into()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let checked = if std::thread::panicking() {
            Ok(0)
        } else {
            self.check_limits()
        };
        drop(std::fs::remove_file(self.file()));
        for group in self.groups.lock().unwrap().iter() {
            drop(std::fs::remove_file(region(group)));
        }
        if let Err(excess) = checked {
            panic!("{excess}");
        }
    }
}

/// The file that a group shares.
fn region(group: &str) -> PathBuf {
    Group::named(group).path().to_str().unwrap().into()
}
