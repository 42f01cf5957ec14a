//! What follows when a registered process ends: its slot is declared dead in the policy, and its container's processes do the
//! rest. The daemon writes nothing into a region that others still use.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use quota_abi::slots;
use quota_abi::sync::Ordering;

use crate::metrics::Counters;
use crate::model::Uuid;

use super::clients::{Client, Key, Record};
use super::container::Container;
use super::core::{Core, Inner};
use super::look;
use super::policy::set_overhead;

impl Core {
    /// A registered process has ended.
    pub(super) fn bury(&self, key: Key) {
        let mut inner = self.lock();
        let Some(client) = inner.clients.remove(&key) else {
            return;
        };
        inner.sources.remove(&client.token);
        let by_nvml = self.parts.gpus.held();
        take_back_overhead(&mut inner, &client, &by_nvml);
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

/// What a process held by NVML and not by its ledger has gone with it: the next one must not be refused until NVML is read again.
fn take_back_overhead(inner: &mut Inner, client: &Client, by_nvml: &BTreeMap<(u32, Uuid), u64>) {
    let Inner {
        containers, copy, ..
    } = inner;
    let Some(container) = containers.get_mut(&client.container) else {
        return;
    };
    let key = client.record.key();
    let own = HashMap::from([(client.record.owner, key)]);
    let held = match copy.read(container.files.usage()) {
        Ok(region) => look::held(region, &own),
        Err(_) => look::Held::new(),
    };
    let last = container.clients.len() <= 1;
    for row in &container.files.policy().rows {
        let Some(uuid) = row.uuid().map(Uuid) else {
            continue;
        };
        let ledger = held.get(&(key, uuid)).copied().unwrap_or(0);
        let all = by_nvml.get(&(key.pid, uuid)).copied().unwrap_or(0);
        let (living, dead) = container.overhead.get(&uuid).copied().unwrap_or_default();
        let left = match last {
            true => 0,
            false => living.saturating_sub(all.saturating_sub(ledger)),
        };
        set_overhead(row, left.saturating_add(dead));
        container.overhead.insert(uuid, (left, dead));
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
