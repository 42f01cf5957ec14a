//! The core as those see it who ask and change: [`Manager`].

use std::collections::BTreeMap;

use crate::api::{Change, Kind, Manager, Refused};
use crate::config::{self, Config};
use crate::model::{Origin, Spec, check_name};
use crate::report;

use super::core::{Core, Inner};
use super::promise;
use super::status::no_container;

fn refused(kind: Kind, text: impl ToString) -> Refused {
    Refused {
        kind,
        text: text.to_string(),
    }
}

impl Manager for Core {
    fn status(&self) -> report::Status {
        self.report_status()
    }

    fn processes(&self, container: Option<&str>) -> Result<Vec<report::Process>, Refused> {
        self.report_processes(container)
    }

    fn why(&self, container: &str) -> Result<report::Why, Refused> {
        self.report_why(container)
    }

    fn set(&self, change: &Change) -> Result<report::Container, Refused> {
        let mut inner = self.lock();
        let name = change.container.as_str();
        let new = !inner.containers.contains_key(name);
        let mut spec = match inner.containers.get(name) {
            Some(container) => container.spec.clone(),
            None if change.create => fresh(change)?,
            None => return Err(no_container(name)),
        };
        let context = inner.config.daemon.context_bytes;
        config::apply(change, &mut spec, &inner.devices, context)?;
        self.check_promise(&inner, &spec)?;
        if new {
            self.open(&mut inner, spec)
                .map_err(|error| refused(Kind::Failed, error))?;
        } else {
            change_spec(&mut inner, spec);
        }
        self.settle(&mut inner);
        let report = self.container_report(&mut inner, name);
        report.ok_or_else(|| no_container(name))
    }

    fn remove(&self, name: &str) -> Result<(), Refused> {
        let mut inner = self.lock();
        let container = inner
            .containers
            .get(name)
            .ok_or_else(|| no_container(name))?;
        if container.spec.origin == Origin::Config {
            let text =
                format!("{name} is declared in the configuration: remove it there, then reload");
            return Err(refused(Kind::Failed, text));
        }
        if !container.clients.is_empty() {
            let text = format!(
                "{name} has {} processes: end them first",
                container.clients.len()
            );
            return Err(refused(Kind::Failed, text));
        }
        self.close(&mut inner, name);
        self.settle(&mut inner);
        Ok(())
    }

    fn reload(&self) -> Result<Vec<String>, Refused> {
        let config = (self.parts.reread)().map_err(|text| refused(Kind::Failed, text))?;
        let mut inner = self.lock();
        let oversubscribe = config.daemon.oversubscribe;
        let declared = |spec: &&Spec| config.containers.iter().any(|of| of.name == spec.name);
        let others = inner.specs().filter(|spec| {
            // Those of the configuration before that have no processes will be gone.
            let gone = spec.origin == Origin::Config && is_empty(&inner, &spec.name);
            !declared(spec) && !gone
        });
        promise::check(
            others.chain(&config.containers),
            &inner.devices,
            oversubscribe,
        )
        .map_err(|broken| refused(Kind::Failed, broken))?;
        let changes = self.apply(&mut inner, config);
        self.publish_all(&inner);
        self.settle(&mut inner);
        for change in &changes {
            tracing::info!("reload: {change}");
        }
        Ok(changes)
    }
}

fn is_empty(inner: &Inner, name: &str) -> bool {
    inner
        .containers
        .get(name)
        .is_none_or(|container| container.clients.is_empty())
}

fn fresh(change: &Change) -> Result<Spec, Refused> {
    check_name(&change.container).map_err(|wrong| refused(Kind::Usage, wrong))?;
    Ok(Spec {
        name: change.container.clone(),
        origin: if change.transient {
            Origin::Run
        } else {
            Origin::Api
        },
        cgroups: Vec::new(),
        every: None,
        devices: BTreeMap::new(),
    })
}

/// Takes a live change up, and remembers what the configuration said.
fn change_spec(inner: &mut Inner, spec: Spec) {
    let Some(container) = inner.containers.get_mut(&spec.name) else {
        return;
    };
    if container.spec.origin == Origin::Config && container.base.is_none() {
        container.base = Some(container.spec.clone());
    }
    if container.base.as_ref() == Some(&spec) {
        container.base = None;
    }
    container.spec = spec;
}

impl Core {
    fn check_promise(&self, inner: &Inner, spec: &Spec) -> Result<(), Refused> {
        let others = inner.specs().filter(|other| other.name != spec.name);
        let oversubscribe = inner.config.daemon.oversubscribe;
        promise::check(others.chain([spec]), &inner.devices, oversubscribe)
            .map_err(|broken| refused(Kind::Failed, broken))
    }

    /// What follows each change of what is declared.
    fn settle(&self, inner: &mut Inner) {
        self.rewrite(inner);
        self.persist(inner);
        self.fill_spares(inner);
        if let Err(error) = self.write_rules(inner) {
            tracing::error!("{error}");
        }
        // It may have to wait for something else now.
        self.nudge();
    }

    /// Takes a new configuration up; says what has changed.
    fn apply(&self, inner: &mut Inner, config: Config) -> Vec<String> {
        let mut changes = Vec::new();
        let declared: BTreeMap<&str, &Spec> = config
            .containers
            .iter()
            .map(|spec| (spec.name.as_str(), spec))
            .collect();
        let names: Vec<String> = inner.containers.keys().cloned().collect();
        for name in &names {
            let Some(container) = inner.containers.get_mut(name) else {
                continue;
            };
            match (declared.get(name.as_str()), container.spec.origin) {
                (Some(spec), _) => {
                    // A live change holds as long as the configuration says what it said then.
                    if container.base.as_ref().unwrap_or(&container.spec) != *spec {
                        container.spec = (*spec).clone();
                        container.base = None;
                        changes.push(format!("container {name} is changed"));
                    }
                }
                (None, Origin::Config) if container.clients.is_empty() => {
                    self.close(inner, name);
                    changes.push(format!("container {name} is gone"));
                }
                (None, Origin::Config) => {
                    container.spec.origin = Origin::Run;
                    container.base = None;
                    changes.push(format!(
                        "container {name} goes when its processes have ended"
                    ));
                }
                (None, Origin::Default) => {
                    if let Some(rule) = &config.default {
                        container.spec.every = rule.every;
                        container.spec.devices.clone_from(&rule.devices);
                    }
                }
                (None, Origin::Api | Origin::Run) => {}
            }
        }
        for spec in &config.containers {
            if inner.containers.contains_key(&spec.name) {
                continue;
            }
            match self.open(inner, spec.clone()) {
                Ok(()) => changes.push(format!("container {} is new", spec.name)),
                Err(error) => {
                    changes.push(format!("container {} is not served: {error}", spec.name));
                    inner.unopened.push((spec.clone(), None, error.to_string()));
                }
            }
        }
        if config.default != inner.config.default {
            changes.push("the default rule is changed".into());
        }
        if config.daemon != inner.config.daemon || config.cdi != inner.config.cdi {
            changes.push(
                "of [daemon] and [cdi], what a running daemon cannot change takes effect at its next start"
                    .into(),
            );
        }
        inner.config = config;
        changes
    }
}
