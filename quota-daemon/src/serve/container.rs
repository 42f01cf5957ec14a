//! A container that is served: its files, its socket, its registered processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::model::{Origin, Spec, Uuid};

use super::account::Tally;
use super::bell::Bell;
use super::clients::Key;
use super::files::Files;
use super::overhead::Overhead;
use super::sockets::Listener;
use super::usage::{self, Size};

/// What the daemon keeps of a container.
#[derive(Debug)]
pub(super) struct Container {
    /// What is declared.
    pub(super) spec: Spec,
    /// What the configuration says, where a live change says otherwise in `spec`.
    pub(super) base: Option<Spec>,
    /// Its regions.
    pub(super) files: Files,
    /// Its socket.
    pub(super) listener: Listener,
    /// Wakes those who share out time.
    pub(super) _bell: Bell,
    /// Its registered processes.
    pub(super) clients: BTreeSet<Key>,
    /// Damage that only its own processes can have done.
    pub(super) damage: Option<String>,
    /// Counters by device.
    pub(super) tallies: BTreeMap<Uuid, Tally>,
    /// Overhead and what the dead hold, by NVML.
    pub(super) overhead: Overhead,
    /// Since when it has had no process.
    pub(super) empty_since: Instant,
}

impl Container {
    /// When a container that nobody has declared for good goes; `None`: it stays.
    #[must_use]
    pub(super) fn goes_at(&self) -> Option<Instant> {
        let grace = match self.spec.origin {
            Origin::Config | Origin::Api => return None,
            // Between `run` and the program that it becomes.
            Origin::Run => Duration::from_secs(10),
            // Its counters may be looked at a little longer.
            Origin::Default => Duration::from_secs(30),
        };
        self.clients.is_empty().then(|| self.empty_since + grace)
    }

    /// Notes damage. The same with other numbers is no news.
    pub(super) fn damaged(&mut self, what: String) {
        let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let known = self.damage.as_deref().map(without_numbers);
        if known != Some(without_numbers(&what))
            && let Some(suppressed) = crate::log::allowed(&self.spec.name, "damage")
        {
            tracing::warn!(container = %self.spec.name, suppressed, "{what}");
        }
        self.damage = Some(what);
    }

    /// Compares the size of its usage region with what it should be.
    pub(super) fn check_size(&mut self) -> Size {
        let size = usage::check_size(self.files.usage());
        if size != Size::Right {
            self.damaged(size.to_string());
        }
        size
    }
}
