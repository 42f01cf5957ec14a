//! `quota-daemon serve`: owns the limits, hands every container its regions, notices deaths, shares out GPU time.
//!
//! One lock is around what is known ([`core`]); nobody waits for anybody while holding it. One thread waits for sockets and
//! deaths ([`event_loop`]), one shares out time ([`pace`]), one for each container listens to its bell ([`bell`]). Others,
//! at the control socket and behind NVML, come through [`manager`].

mod account;
mod adopt;
mod bell;
mod checks;
mod clients;
mod command;
mod container;
mod core;
mod deaths;
mod error;
mod event_loop;
mod files;
mod handshake;
mod host;
mod look;
mod manager;
mod mounts;
mod overhead;
mod pace;
mod peer;
mod persist;
mod policy;
mod promise;
mod registry;
mod rules;
mod settings;
mod signals;
mod sockets;
mod spares;
mod state_dir;
mod status;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

pub use self::core::Core;
pub use command::{Args, run};
pub use error::Error;
pub use settings::{Fixed, Gpus, Parts, Reread, Settings};

use crate::api::Manager;

/// A daemon that runs, in threads of this process. Dropping it stops it, and leaves regions and sockets as they are: the
/// containers stay limited.
pub struct Running {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts a daemon.
///
/// # Errors
/// Another one has the directory, more memory would be promised than there is, or the kernel refuses.
pub fn start(settings: Settings, parts: Parts) -> Result<Running, Error> {
    let core = Arc::new(Core::new(settings, parts)?);
    core.take_over()?;
    let mut running = Running {
        core,
        threads: Vec::new(),
    };
    running.spawn("events", event_loop::run)?;
    running.spawn("pace", pace::run)?;
    Ok(running)
}

impl Running {
    fn spawn(&mut self, name: &str, work: fn(&Core)) -> Result<(), Error> {
        let core = self.core.clone();
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&core))
            .map_err(|error| Error::System("start a thread", error))?;
        self.threads.push(thread);
        Ok(())
    }

    /// For whoever asks and changes.
    #[must_use]
    pub fn manager(&self) -> Arc<dyn Manager> {
        self.core.clone()
    }

    /// For NVML's reader.
    #[must_use]
    pub fn core(&self) -> Arc<Core> {
        self.core.clone()
    }

    /// How often its event loop has turned: it turns when told to, unless it hangs.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.core.nudge();
        self.core.turns.load(Ordering::Relaxed)
    }

    /// Whether all its threads run.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.stopping.store(true, Ordering::SeqCst);
        self.core.nudge();
        self.core.signal.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
