//! What NVML's reader wants to know of the core, and what it tells it.

use std::collections::BTreeMap;

use quota_abi::sync::Ordering;

use crate::model::Uuid;
use crate::reconcile::drive::{self, Registry};
use crate::reconcile::{Client, Declared, Outcome};
use crate::report::DeviceStatus;

use super::core::Core;
use super::promise;
use super::settings::Gpus;

impl Gpus for drive::Gpus {
    fn devices(&self) -> Vec<crate::model::Device> {
        Self::devices(self)
    }

    fn report(&self) -> Vec<DeviceStatus> {
        Self::report(self)
    }

    fn held(&self) -> BTreeMap<(u32, Uuid), u64> {
        Self::held(self)
    }

    fn warnings(&self) -> Vec<String> {
        Self::warnings(self)
    }

    fn poke(&self) {
        Self::poke(self);
    }
}

impl Registry for Core {
    fn clients(&self) -> Vec<Client> {
        let processes = self.report_processes(None).unwrap_or_default();
        processes
            .into_iter()
            .map(|process| Client {
                container: process.container,
                pid: process.pid,
                since: process.since,
                ledger: process
                    .memory
                    .iter()
                    .map(|held| (held.uuid, held.ledger_bytes))
                    .collect(),
            })
            .collect()
    }

    fn declared(&self) -> Vec<Declared> {
        let inner = self.lock();
        inner
            .specs()
            .map(|spec| Declared {
                name: spec.name.clone(),
                cgroups: spec.cgroups.clone(),
            })
            .collect()
    }

    fn charges(&self) -> BTreeMap<(String, Uuid), u64> {
        let inner = self.lock();
        let mut charges = BTreeMap::new();
        for (name, container) in &inner.containers {
            for row in &container.files.policy().rows {
                if let Some(uuid) = row.uuid() {
                    let context = row.context.load(Ordering::Relaxed);
                    charges.insert((name.clone(), Uuid(uuid)), context);
                }
            }
        }
        charges
    }

    fn contexts(&self) -> BTreeMap<Uuid, u64> {
        self.lock().contexts.clone()
    }

    fn reconciled(&self, outcome: &Outcome) {
        let mut inner = self.lock();
        for (name, container) in &mut inner.containers {
            container.overhead.take(name, &container.clients, outcome);
            container.overhead.write(container.files.policy());
        }
        let mut contexts = inner.contexts.clone();
        contexts.extend(&outcome.contexts);
        if contexts != inner.contexts {
            inner.contexts = contexts;
            self.rewrite(&inner);
            self.persist(&inner);
        }
    }

    fn devices_changed(&self) {
        let devices = self.parts.gpus.devices();
        let mut inner = self.lock();
        if devices == inner.devices {
            return;
        }
        tracing::info!(devices = devices.len(), "the devices have changed");
        inner.devices = devices;
        let oversubscribe = inner.config.daemon.oversubscribe;
        if let Err(broken) = promise::check(inner.specs(), &inner.devices, oversubscribe) {
            tracing::error!("{broken}");
        }
        self.rewrite(&inner);
    }
}
