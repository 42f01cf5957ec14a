//! `[[container]]` and `[default]`.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fields::Fields;
use super::files::File;
use super::problem::Problems;
use super::said::{KEYS, Said};
use super::{Rule, values};
use crate::model::{Origin, Quota, Selector, Spec, check_name};

/// The tables of a configuration.
pub(super) const TABLES: [&str; 4] = ["daemon", "default", "container", "cdi"];

/// Puts the tables of all files together.
pub(super) struct Reader {
    pub(super) default: Option<Rule>,
    pub(super) containers: Vec<Spec>,
    /// What a context is charged where a container says nothing.
    context: Option<u64>,
    default_at: Option<String>,
    names: BTreeMap<String, String>,
    cgroups: BTreeMap<String, String>,
}

/// What a container or the default may have.
struct Quotas {
    every: Option<Quota>,
    devices: BTreeMap<Selector, Quota>,
    cgroups: Vec<String>,
}

impl Reader {
    pub(super) fn new(context: Option<u64>) -> Self {
        Self {
            default: None,
            containers: Vec::new(),
            context,
            default_at: None,
            names: BTreeMap::new(),
            cgroups: BTreeMap::new(),
        }
    }

    pub(super) fn read(&mut self, file: &File, document: &DeTable<'_>, problems: &mut Problems) {
        // Other keys have been told with `[daemon]`.
        let root = Fields::new(
            file,
            document,
            0,
            "the configuration",
            &[],
            &mut Problems::default(),
        );
        if let Some(value) = root.get("default") {
            self.default(file, &root, value, problems);
        }
        let Some(value) = root.get("container") else {
            return;
        };
        let array = value.get_ref().as_array();
        for value in array.into_iter().flatten() {
            let Some(table) = value.get_ref().as_table() else {
                root.wrong_value("container", value, "is no table", problems);
                continue;
            };
            self.container(file, table, value.span().start, problems);
        }
        if array.is_none() {
            let text = "every container is one of several: write [[container]]";
            root.wrong_key("container", text, problems);
        }
    }

    fn default(
        &mut self,
        file: &File,
        root: &Fields<'_>,
        value: &Spanned<DeValue<'_>>,
        problems: &mut Problems,
    ) {
        let at = root.key_at("default").unwrap_or(0);
        let Some(table) = value.get_ref().as_table() else {
            root.wrong_key("default", "default is one table: write [default]", problems);
            return;
        };
        if let Some(place) = self.default_at.replace(file.place(at)) {
            let text = format!("[default] was given at {place}; leave one of them");
            root.wrong_key("default", text, problems);
            return;
        }
        let keys: Vec<_> = KEYS.into_iter().chain(["cgroups", "device"]).collect();
        let fields = Fields::new(file, table, at, "[default]", &keys, problems);
        let Quotas {
            every,
            devices,
            cgroups,
        } = self.quotas(file, &fields, "[default]", problems);
        self.default = Some(Rule {
            cgroups,
            every,
            devices,
        });
    }

    fn container(&mut self, file: &File, table: &DeTable<'_>, at: usize, problems: &mut Problems) {
        let name = table.iter().find(|(key, _)| key.get_ref() == "name");
        let name = name.and_then(|(_, value)| value.get_ref().as_str());
        let what = match name {
            Some(name) => format!("container {name:?}"),
            None => "a container".into(),
        };
        let keys: Vec<_> = ["name", "cgroups", "device"]
            .into_iter()
            .chain(KEYS)
            .collect();
        let fields = Fields::new(file, table, at, &what, &keys, problems);
        if !fields.has("name") {
            fields.wrong("it has no name; add name = \"team-a\"", problems);
        }
        let name = fields.text("name", checked, problems);
        let quotas = self.quotas(file, &fields, &what, problems);
        let Some(name) = name else {
            return;
        };
        let place = file.place(fields.key_at("name").unwrap_or(at));
        if let Some(place) = self.names.insert(name.clone(), place) {
            let text = format!("this name was given at {place}; give each container its own");
            fields.wrong_key("name", text, problems);
        }
        self.containers.push(Spec {
            name,
            origin: Origin::Config,
            cgroups: quotas.cgroups,
            every: quotas.every,
            devices: quotas.devices,
        });
    }

    fn quotas(
        &mut self,
        file: &File,
        fields: &Fields<'_>,
        what: &str,
        problems: &mut Problems,
    ) -> Quotas {
        let said = Said::read(fields, problems);
        let base = Quota {
            context_bytes: self.context,
            ..Quota::default()
        };
        let devices = fields.get("device");
        // A value that was refused was given all the same.
        let any = ["memory", "compute", "weight", "cap"];
        let limits = any.into_iter().any(|key| fields.has(key));
        if !fields.has("memory") && (limits || devices.is_none()) {
            fields.wrong(
                "it does not say its memory; add memory = \"4GiB\", or memory = \"none\" for no limit",
                problems,
            );
        }
        let base = said.over(base).unwrap_or_else(|wrong| {
            if !fields.has("compute") && !fields.has("weight") {
                fields.wrong_key("cap", wrong, problems);
            }
            base
        });
        let devices = devices.map_or_else(BTreeMap::new, |value| {
            let base = (base, fields.has("memory"));
            devices_of(file, fields, value, what, base, problems)
        });
        Quotas {
            every: limits.then_some(base),
            devices,
            cgroups: self.patterns(file, fields, problems),
        }
    }

    fn patterns(
        &mut self,
        file: &File,
        fields: &Fields<'_>,
        problems: &mut Problems,
    ) -> Vec<String> {
        let mut patterns = Vec::new();
        for (pattern, at) in fields.texts("cgroups", problems) {
            let trouble = match values::cgroup(&pattern) {
                Err(wrong) => Some(format!("{pattern:?} {wrong}")),
                Ok(()) => self
                    .cgroups
                    .insert(pattern.clone(), file.place(at))
                    .map(|place| {
                        format!("{pattern:?} was given at {place}; one rule for each cgroup")
                    }),
            };
            if let Some(text) = trouble {
                problems.add(file.problem(at, text));
            }
            patterns.push(pattern);
        }
        patterns
    }
}

/// `[container.device.*]`: each begins as what the container has of every device, if that says its memory.
fn devices_of(
    file: &File,
    fields: &Fields<'_>,
    value: &Spanned<DeValue<'_>>,
    what: &str,
    (base, memory_said): (Quota, bool),
    problems: &mut Problems,
) -> BTreeMap<Selector, Quota> {
    let mut devices = BTreeMap::new();
    let Some(tables) = value.get_ref().as_table().filter(|table| !table.is_empty()) else {
        let text = "device is a table for each device: write [container.device.\"0\"]";
        fields.wrong_key("device", text, problems);
        return devices;
    };
    for (key, value) in tables {
        let (at, name) = (key.span().start, key.get_ref());
        let Some(table) = value.get_ref().as_table() else {
            let text = format!("{what}: device {name:?} is no table");
            problems.add(file.problem(at, text));
            continue;
        };
        let what = format!("{what}, device {name:?}");
        let fields = Fields::new(file, table, at, &what, &KEYS, problems);
        let said = Said::read(&fields, problems);
        if !fields.has("memory") && !memory_said {
            fields.wrong(
                "it does not say its memory; add memory = \"4GiB\", or memory = \"none\" for no limit",
                problems,
            );
        }
        let quota = said.over(base).unwrap_or_else(|wrong| {
            if !fields.has("compute") && !fields.has("weight") {
                fields.wrong_key("cap", wrong, problems);
            }
            base
        });
        match values::device(name) {
            Err(_) => fields.wrong(
                "it is named neither by number nor by UUID; write \"0\" or \"GPU-<uuid>\"",
                problems,
            ),
            Ok(selector) => {
                if devices.insert(selector, quota).is_some() {
                    fields.wrong("it is named twice; leave one of them", problems);
                }
            }
        }
    }
    devices
}

/// The value is repeated before what is wrong with it.
fn checked(name: &str) -> Result<String, String> {
    let own = |wrong: String| match wrong.strip_prefix(&format!("{name:?} ")) {
        Some(rest) => rest.to_owned(),
        None => wrong,
    };
    check_name(name).map(|()| name.to_owned()).map_err(own)
}
