//! A change of a container, as a command or a program asks for it.

use std::collections::BTreeMap;

use super::said::{ALONE, EITHER, Said, Time};
use super::values;
use crate::api::{Change, Kind, Refused};
use crate::model::{Device, Quota, Selector, Spec, check_name};

/// Makes the change to a container's declaration. `devices` are those of this host: a change by index or UUID is one of the
/// entry that rules the device. With no devices known, any name is taken. `context_bytes` is the configuration's, for a container
/// that is new.
///
/// # Errors
/// What makes no sense, and then nothing is changed; a device that this host does not have.
pub fn apply(
    change: &Change,
    spec: &mut Spec,
    devices: &[Device],
    context_bytes: Option<u64>,
) -> Result<(), Refused> {
    let new = Quota {
        context_bytes,
        ..Quota::default()
    };
    check_name(&change.container).map_err(usage)?;
    let said = read(change)?;
    if let Some(patterns) = &change.cgroups {
        for pattern in patterns {
            values::cgroup(pattern)
                .map_err(|wrong| usage(format!("cgroup {pattern:?} {wrong}")))?;
        }
    }
    match &change.device {
        None => every(change, &said, spec, new)?,
        Some(name) => {
            let selector = values::device(name)
                .map_err(|_| usage(format!("device {name:?} is neither a number nor a UUID")))?;
            for entry in entries(selector, &spec.devices, devices)? {
                let base = spec.devices.get(&entry).copied().or(spec.every);
                let quota = quota(change, &said, base, new)?;
                spec.devices.insert(entry, quota);
            }
        }
    }
    if let Some(patterns) = &change.cgroups {
        spec.cgroups.clone_from(patterns);
    }
    Ok(())
}

fn every(change: &Change, said: &Said, spec: &mut Spec, new: Quota) -> Result<(), Refused> {
    if *said == Said::default() && !change.create {
        return Ok(());
    }
    if spec.every.is_none() && !said.limits() && !spec.devices.is_empty() {
        let name = &change.container;
        let text = format!("{name} has values for single devices only; name one with --device");
        return Err(usage(text));
    }
    spec.every = Some(quota(change, said, spec.every, new)?);
    Ok(())
}

/// What `base` becomes; without one, what `new` becomes, and then the memory must be said.
fn quota(change: &Change, said: &Said, base: Option<Quota>, new: Quota) -> Result<Quota, Refused> {
    if base.is_none() && said.memory.is_none() {
        let name = &change.container;
        let text =
            format!("say the memory of {name}: --memory 4GiB, or --memory none for no limit");
        return Err(usage(text));
    }
    said.over(base.unwrap_or(new)).map_err(usage)
}

/// The entries that rule the devices of this name: what a UUID was given counts before what an index was.
fn entries(
    selector: Selector,
    entries: &BTreeMap<Selector, Quota>,
    devices: &[Device],
) -> Result<Vec<Selector>, Refused> {
    if devices.is_empty() {
        return Ok(vec![selector]);
    }
    let named: Vec<_> = devices
        .iter()
        .filter(|device| match selector {
            Selector::Index(index) => device.index == index,
            Selector::Uuid(uuid) => device.uuid == uuid,
        })
        .collect();
    if named.is_empty() {
        let text = format!("this host has no device {selector}");
        return Err(Refused {
            kind: Kind::NotFound,
            text,
        });
    }
    let mut ruling = Vec::new();
    for device in named {
        let own = Selector::Uuid(device.uuid);
        let entry = if entries.contains_key(&own) {
            own
        } else {
            selector
        };
        if !ruling.contains(&entry) {
            ruling.push(entry);
        }
    }
    Ok(ruling)
}

fn read(change: &Change) -> Result<Said, Refused> {
    let compute = spelled("compute", &change.compute, values::share)?;
    let weight = change.weight.map(|weight| {
        values::weight(weight.into()).map_err(|wrong| usage(format!("weight {weight} {wrong}")))
    });
    let weight = weight.transpose()?;
    let cap = spelled("cap", &change.cap, values::share)?;
    if compute.is_some() && weight.is_some() {
        return Err(usage(EITHER));
    }
    if compute.is_some() && cap.is_some() {
        return Err(usage(ALONE));
    }
    Ok(Said {
        memory: spelled("memory", &change.memory, values::memory)?,
        time: weight.map(Time::Weight).or(compute.map(Time::Compute)),
        cap,
        priority: change.priority,
        observe: change.observe,
        context: spelled("context", &change.context, values::context)?,
    })
}

fn spelled<T, E: std::fmt::Display>(
    name: &str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Refused> {
    let parsed = text
        .as_deref()
        .map(|text| parse(text).map_err(|wrong| usage(format!("{name} {text:?} {wrong}"))));
    parsed.transpose()
}

fn usage(text: impl Into<String>) -> Refused {
    Refused {
        kind: Kind::Usage,
        text: text.into(),
    }
}
