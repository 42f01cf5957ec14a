//! What follows when a registered process ends: its slot is declared dead in the policy, and its container's processes do the
//! rest. The daemon writes nothing into a region that others still use.

use std::time::Instant;

use quota_abi::slots;
use quota_abi::sync::Ordering;

use crate::metrics::Counters;

use super::clients::{Key, Record};
use super::container::Container;
use super::core::{Core, Inner};

impl Core {
    /// A registered process has ended.
    pub(super) fn bury(&self, key: Key) {
        let mut inner = self.lock();
        let Some(client) = inner.clients.remove(&key) else {
            return;
        };
        inner.sources.remove(&client.token);
        self.declare_dead(&mut inner, &client.container, &client.record);
        tracing::debug!(container = %client.container, pid = key.pid, "ended");
        Counters::add(&self.parts.counters.deaths);
        self.signal.ring();
        self.parts.gpus.poke();
    }

    /// Declares a process dead in its container's policy, and forgets it.
    pub(super) fn declare_dead(&self, inner: &mut Inner, name: &str, record: &Record) {
        let Inner {
            containers, copy, ..
        } = inner;
        let Some(container) = containers.get_mut(name) else {
            return;
        };
        container.clients.remove(&record.key());
        container.overhead.forget(record.key());
        container.overhead.write(container.files.policy());
        if container.clients.is_empty() {
            // The next one to come finds everything cleared.
            container.empty_since = Instant::now();
            self.nudge();
        }
        mark(container, copy, record);
        // Last: killed before this, the next daemon does it all again.
        record.forget(&self.state.clients(name));
    }
}

fn mark(container: &Container, copy: &mut quota_abi::region::snapshot::Snapshot, record: &Record) {
    let Some(dead) = record.owner() else {
        return;
    };
    let Ok(region) = copy.read_head(container.files.usage()) else {
        return;
    };
    let policy = container.files.policy();
    for (index, owner) in slots::owners(region) {
        if owner.is_same_process(dead)
            && let Some(word) = policy.dead.get(index)
        {
            // SYNC POINT with whoever reaps: it compares this word with the slot's owner.
            word.store(owner.word(), Ordering::Release);
        }
    }
}
