//! The host's socket: its rules, and the list of cgroups that processes read when nobody answers there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use quota_abi::wire::Status;

use crate::model::{Origin, Spec};

use super::Error;
use super::checks::No;
use super::core::{Core, Inner, Source};
use super::promise;
use super::rules;
use super::sockets::Listener;
use super::state_dir::failed;

/// Containers that the default rule may make: a tenant that can make cgroups could otherwise make containers without end.
const MOST_BY_DEFAULT: usize = 256;

impl Core {
    /// Listens at the host's socket, whether or not there are rules: who is of no rule is told so.
    pub(super) fn open_host(&self, inner: &mut Inner) -> Result<(), Error> {
        let token = inner.token(Source::Host);
        let listener = Listener::bind(&self.state.path().join("host.sock"), token)?;
        self.watch(&listener.socket, token)?;
        inner.host = Some(listener);
        self.write_rules(inner)
    }

    /// Writes the list of patterns.
    pub(super) fn write_rules(&self, inner: &Inner) -> Result<(), Error> {
        let mut lines = String::new();
        let declared = inner.specs().flat_map(|spec| spec.cgroups.iter());
        let by_default = inner.config.default.iter().flat_map(|rule| {
            let all = rule.cgroups.is_empty().then_some("/**");
            rule.cgroups.iter().map(String::as_str).chain(all)
        });
        for pattern in declared.map(String::as_str).chain(by_default) {
            lines.push_str(pattern);
            lines.push('\n');
        }
        let path = self.state.path().join("host.cgroups");
        let fresh = path.with_extension("new");
        fs::write(&fresh, lines)
            .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|error| failed("write", &path, error))
    }

    /// The container of a cgroup, which the default rule may make.
    pub(super) fn by_cgroup(&self, inner: &mut Inner, cgroup: &str) -> Result<String, No> {
        if let Some(name) = rules::container(inner.specs(), cgroup) {
            return Ok(name.to_owned());
        }
        let no_rule = || No::new(Status::NoRule, format!("no rule is for cgroup {cgroup}"));
        let rule = inner.config.default.as_ref().ok_or_else(no_rule)?;
        let unit = rules::default_unit(&rule.cgroups, cgroup).ok_or_else(no_rule)?;
        let name = rules::name_of(unit);
        if inner.containers.contains_key(&name) {
            return Ok(name);
        }
        let spec = Spec {
            cgroups: vec![unit.to_owned()],
            ..rule.spec(&name)
        };
        let by_default = inner.specs().filter(|spec| spec.origin == Origin::Default);
        if by_default.count() >= MOST_BY_DEFAULT {
            let text = format!(
                "the default rule has made {MOST_BY_DEFAULT} containers, and makes no more"
            );
            return Err(No::new(Status::Refused, text));
        }
        let all = inner.specs().chain([&spec]);
        promise::check(all, &inner.devices, inner.config.daemon.oversubscribe)
            .map_err(|broken| No::new(Status::Refused, format!("by the default rule: {broken}")))?;
        self.open(inner, spec)
            .map_err(|error| No::new(Status::Later, error.to_string()))?;
        self.rewrite(inner);
        tracing::info!(container = %name, cgroup = unit, "made by the default rule");
        self.persist(inner);
        Ok(name)
    }
}
