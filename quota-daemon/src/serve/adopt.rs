//! Taking over from the daemon before: its containers, their regions as they are, and their processes that still live.

use std::collections::BTreeMap;
use std::fs;

use crate::cdi::Publisher;
use crate::metrics::Counters;
use crate::model::{Origin, Spec, check_name};
use crate::output::count;

use super::Error;
use super::clients;
use super::core::{Core, Inner};
use super::files::Files;
use super::persist::Kept;
use super::policy;
use super::promise;

/// A container that is to be: as declared, and what the configuration says if a live change says otherwise.
type Wanted = BTreeMap<String, (Spec, Option<Spec>)>;

impl Core {
    /// Opens everything, and adopts who lives.
    pub(super) fn take_over(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        let kept = match Kept::read(self.state.path()) {
            Ok(kept) => kept,
            Err(error) => {
                Kept::put_aside(self.state.path());
                let text =
                    format!("containers.json cannot be read ({error}), and has been put aside");
                tracing::error!("{text}");
                inner.troubles.push(text);
                Kept::default()
            }
        };
        let oversubscribe = inner.config.daemon.oversubscribe;
        promise::check(
            inner.config.containers.iter(),
            &inner.devices,
            oversubscribe,
        )?;
        inner.contexts.clone_from(&kept.contexts);
        let mut wanted = self.wanted(&inner.config.containers, kept);
        self.add_undeclared(&mut wanted);
        for (spec, base) in wanted.into_values() {
            self.adopt(&mut inner, spec, base);
        }
        let all = promise::check(inner.specs(), &inner.devices, oversubscribe);
        if let Err(broken) = all {
            inner.troubles.push(format!("with live changes: {broken}"));
        }
        self.rewrite(&inner);
        self.persist(&inner);
        self.open_host(&mut inner)?;
        self.sweep(&inner);
        self.fill_spares(&mut inner);
        tracing::info!(
            "serving {} at {}, {}, {} of before",
            count(inner.containers.len(), "container", "containers"),
            self.state.path().display(),
            count(inner.devices.len(), "device", "devices"),
            count(inner.clients.len(), "process", "processes"),
        );
        Ok(())
    }

    /// What the configuration declares, and of what was kept that which it says nothing about.
    fn wanted(&self, declared: &[Spec], kept: Kept) -> Wanted {
        let mut wanted: Wanted = declared
            .iter()
            .map(|spec| (spec.name.clone(), (spec.clone(), None)))
            .collect();
        for (mut spec, base) in kept.into_specs() {
            match wanted.get_mut(&spec.name) {
                // A live change holds as long as the configuration says what it said then.
                Some((now, changed)) => {
                    if base.as_ref() == Some(&*now) {
                        (*changed, *now) = (base, spec);
                    }
                }
                None => {
                    if spec.origin == Origin::Config {
                        // Declared no longer: it goes with its last process.
                        spec.origin = Origin::Run;
                    }
                    let transient = matches!(spec.origin, Origin::Run | Origin::Default);
                    if !transient || self.has_living(&spec.name) {
                        wanted.insert(spec.name.clone(), (spec, None));
                    }
                }
            }
        }
        wanted
    }

    /// Containers with living processes of which nobody knows any more what was declared: their policies say it.
    fn add_undeclared(&self, wanted: &mut Wanted) {
        let Ok(entries) = fs::read_dir(self.state.path().join("clients")) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if wanted.contains_key(&name) || check_name(&name).is_err() || !self.has_living(&name) {
                continue;
            }
            match Files::open(&self.state, &name) {
                Ok(files) => {
                    tracing::warn!(
                        container = name,
                        "declared nowhere; it keeps what its policy says"
                    );
                    let spec = policy::spec_of(&name, files.policy());
                    wanted.insert(name, (spec, None));
                }
                Err(error) => tracing::error!(container = name, "{error}"),
            }
        }
    }

    /// Whether a process lives that an earlier daemon has noted.
    fn has_living(&self, name: &str) -> bool {
        let records = clients::kept(&self.state.clients(name));
        records.iter().any(|record| record.find().is_some())
    }

    fn adopt(&self, inner: &mut Inner, spec: Spec, base: Option<Spec>) {
        let name = spec.name.clone();
        if let Err(error) = self.open(inner, spec.clone()) {
            let text = format!("container {name} is not served: {error}");
            tracing::error!("{text}");
            inner.unopened.push((spec, base, error.to_string()));
            return;
        }
        if let Some(container) = inner.containers.get_mut(&name) {
            container.base = base;
        }
        let fresh = inner
            .containers
            .get(&name)
            .is_some_and(|container| container.files.are_fresh());
        if fresh && self.has_living(&name) {
            let text = format!(
                "the regions of container {name} were lost (was something mounted over them?): its processes keep the limits \
                 that they had, and each other's memory is not counted; end them"
            );
            tracing::error!("{text}");
            inner.troubles.push(text);
        }
        for record in clients::kept(&self.state.clients(&name)) {
            match record.find() {
                Some(pidfd) => {
                    Counters::add(&self.parts.counters.adopted);
                    self.register(inner, &name, record, pidfd);
                }
                None => self.declare_dead(inner, &name, &record),
            }
        }
    }

    /// Whether something could not be opened or published.
    pub(super) fn is_to_retry(&self, inner: &Inner) -> bool {
        !inner.unopened.is_empty() || self.publisher.as_ref().is_some_and(Publisher::misses)
    }

    /// Tries that again.
    pub(super) fn retry(&self, inner: &mut Inner) {
        self.publish_all(inner);
        let before = inner.unopened.len();
        for (spec, base, _) in std::mem::take(&mut inner.unopened) {
            self.adopt(inner, spec, base);
        }
        if inner.unopened.len() < before {
            self.rewrite(inner);
            self.persist(inner);
        }
    }

    /// Writes the files of devices that are not there, or not as they should be.
    pub(super) fn publish_all(&self, inner: &Inner) {
        if let Some(publisher) = &self.publisher {
            inner.specs().for_each(|spec| publisher.publish(spec));
        }
    }

    /// Removes what belongs to no container and to no living process.
    fn sweep(&self, inner: &Inner) {
        let known = |name: &str| {
            inner.containers.contains_key(name)
                || inner.unopened.iter().any(|(spec, ..)| spec.name == name)
        };
        if let Some(publisher) = &self.publisher {
            publisher.sweep(known);
        }
        for folder in ["containers", "clients"] {
            let Ok(entries) = fs::read_dir(self.state.path().join(folder)) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if !known(&name) && !self.has_living(&name) {
                    tracing::debug!(container = name, "nothing of it lives");
                    super::files::remove(&self.state, &name);
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
        }
    }
}
