//! The region of the group that a program started here would join: who is in it, what they hold.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use quota_abi::bucket::Bucket;
use quota_abi::group::Group;
use quota_abi::layout::Region;
use quota_abi::life::Identity;
use quota_abi::region::Mapped;
use quota_abi::settings::Settings;
use quota_abi::{devices, slots, spelling};

use super::finding::Findings;
use super::probe::{Device, uuid_text};
use crate::gpu_time::Used;
use crate::output::count;
use crate::units::size;

/// Examines the group that `settings` name, or this container's; `devices` are those that a program sees, by number.
pub(super) fn examine(settings: &Settings, devices: &[Device], findings: &mut Findings) {
    let (group, name) = match &settings.group {
        Some(name) => (Group::named(name), format!("group {name:?}")),
        None => (Group::of_this_container(), "this container's group".into()),
    };
    let path = group.path();
    match Mapped::open(&path) {
        Ok(None) => findings.info("group", format!("no process of {name} has started yet")),
        Err(error) => findings.failure(
            "group",
            error.to_string(),
            "end the programs that use it and remove the file; programs of this version make a new one",
        ),
        Ok(Some(region)) => {
            let path = path.to_string_lossy();
            members(&region, &format!("{name} ({path})"), &Identity::own(), findings);
            usage(&region, settings, devices, findings);
        }
    }
}

/// Who holds slots. The dead are reaped on the way, as any process of the group does.
fn members(region: &Region, name: &str, me: &Identity, findings: &mut Findings) {
    slots::reap(region, me);
    let (mut living, mut doubtful) = (Vec::new(), Vec::new());
    for (index, owner) in slots::owners(region) {
        let namespace = region
            .slots
            .get(index)
            .map_or(0, |slot| slot.namespace.load(Ordering::Relaxed));
        let list = if namespace == me.namespace {
            &mut living
        } else {
            &mut doubtful
        };
        list.push(owner.pid());
    }
    findings.info(
        "group",
        format!(
            "{name} has {}{}",
            count(living.len() + doubtful.len(), "process", "processes"),
            pids(&living)
        ),
    );
    if !doubtful.is_empty() {
        findings.warning(
            "group",
            format!(
                "of these, {} of other pid namespaces, so nobody can tell from here whether they live{}",
                doubtful.len(),
                pids(&doubtful)
            ),
            "run doctor where they were started; if they are gone for good and nothing else uses \
             the group, remove its file",
        );
    }
}

fn pids(pids: &[u32]) -> String {
    if pids.is_empty() {
        return String::new();
    }
    let sorted: BTreeSet<_> = pids.iter().collect();
    let list: Vec<_> = sorted.iter().take(16).map(ToString::to_string).collect();
    let more = if sorted.len() > list.len() {
        ", ..."
    } else {
        ""
    };
    format!(": pid {}{more}", list.join(", "))
}

fn usage(region: &Region, settings: &Settings, seen: &[Device], findings: &mut Findings) {
    for (index, row) in region.devices.iter().enumerate() {
        let (Some(uuid), Some(ledger)) = (devices::uuid_of(row), devices::ledger(region, index))
        else {
            continue;
        };
        let name = uuid_text(uuid);
        let number = (0..)
            .zip(seen)
            .find(|(_, device)| spelling::uuid(&device.uuid) == Ok(uuid))
            .map(|(number, _)| number);
        let limit = settings.memory.of(number, &uuid);
        let limit = limit.map_or_else(String::new, |limit| format!(" of {}", size(limit)));
        let denials = row.denials.load(Ordering::Relaxed);
        findings.info(
            "group",
            format!(
                "{name}: {}{limit} held, {} refused",
                size(ledger.usage()),
                count(denials, "request", "requests"),
            ),
        );
        let bucket = region.buckets.get(index).map(Bucket::read);
        if let Some(used) = bucket.and_then(|reading| Used::from(reading).text()) {
            findings.info("group", format!("{name}: {used}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_in_doubt_and_named() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        slots::claim(&region, &me).unwrap();
        let stranger = Identity {
            pid: 4711,
            start: 1,
            namespace: me.namespace + 1,
            image: 0,
        };
        slots::claim(&region, &stranger).unwrap();
        let mut findings = Findings::default();
        members(&region, "group", &me, &mut findings);
        let text = format!("{findings:?}");
        assert!(text.contains("2 processes"), "{text}");
        assert!(text.contains("pid 4711"), "{text}");
        assert!(!findings.failed());
    }

    #[test]
    fn what_is_held_is_told_by_device() {
        let region = Mapped::private().unwrap();
        let device = devices::index_of(&region, &[7; 16]).unwrap();
        devices::ledger(&region, device)
            .unwrap()
            .force(0, 100 << 20);
        region.header.high_water.store(1, Ordering::Relaxed);
        region.devices[device].denials.store(1, Ordering::Relaxed);
        region.buckets[device].charge(5_000_000);
        region.buckets[device].count_launches(7);
        let list = b"1=1GiB";
        let settings = quota_abi::settings::read(|name| {
            (name == "GPU_QUOTA_MEMORY").then_some(list.as_slice())
        });
        let seen = [[9; 16], [7; 16]].map(|uuid| Device {
            uuid: uuid_text(uuid),
            ..Device::default()
        });
        let mut findings = Findings::default();
        usage(&region, &settings.unwrap(), &seen, &mut findings);
        let text = format!("{findings:?}");
        assert!(text.contains("GPU-07070707"), "{text}");
        assert!(
            text.contains("100 MiB of 1 GiB held, 1 request refused"),
            "{text}"
        );
        let used = "GPU-07070707-0707-0707-0707-070707070707: 5 ms of GPU time used by 7 launches";
        assert!(text.contains(used), "{text}");
    }
}
