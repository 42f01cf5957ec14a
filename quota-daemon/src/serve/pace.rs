//! The thread that shares out GPU time: woken by bells, by what has changed, and as often as the controller asks.

use std::time::{Duration, Instant};

use quota_abi::region::snapshot::Snapshot;

use crate::model::{Quota, Uuid};
use crate::sharing::{Controller, DeviceView, Member, Reading, Settings};

use super::core::{Core, Inner};
use super::look;
use super::status::monotonic;

/// However often bells ring.
const AT_LEAST: Duration = Duration::from_millis(2);

/// Runs until the core stops.
pub(super) fn run(core: &Core) {
    let turns = core.lock().config.daemon.turns;
    let mut controller = Controller::new(Settings { turns });
    let Some(mut copy) = Snapshot::new() else {
        tracing::error!("no memory to look at usage regions: nothing is lent");
        return;
    };
    while !core.is_stopping() {
        let next = step(core, &mut controller, &mut copy);
        std::thread::sleep(AT_LEAST);
        core.signal.wait(next);
    }
}

fn step(core: &Core, controller: &mut Controller, copy: &mut Snapshot) -> Option<Duration> {
    let mut inner = core.lock();
    let readings = read(&mut inner, copy);
    let world = inner.world();
    let quotas: Vec<_> = inner
        .containers
        .values()
        .map(|container| (container, world.quotas(&container.spec)))
        .collect();
    let mut views: Vec<DeviceView<'_>> = Vec::new();
    for (container, quotas) in &quotas {
        for (uuid, quota) in quotas {
            let Some(row) = container.files.policy().row(&uuid.0) else {
                continue;
            };
            let number = container.listener.token;
            let reading = readings
                .iter()
                .find(|(of, on, _)| (of, on) == (&number, uuid));
            let member = Member {
                container: number,
                compute: quota.compute,
                priority: quota.priority,
                observe: quota.observe,
                reading: reading.map(|(_, _, reading)| *reading),
                row,
            };
            match views.iter_mut().find(|view| view.uuid == *uuid) {
                Some(view) => view.members.push(member),
                None => views.push(DeviceView {
                    uuid: *uuid,
                    members: vec![member],
                }),
            }
        }
    }
    controller.step(monotonic(), &views)
}

/// What containers with living processes say of each device that they may use.
fn read(inner: &mut Inner, copy: &mut Snapshot) -> Vec<(u64, Uuid, Reading)> {
    let quotas: Vec<(String, Vec<(Uuid, Quota)>)> = {
        let world = inner.world();
        let alive = inner
            .containers
            .iter()
            .filter(|(_, container)| !container.clients.is_empty());
        alive
            .map(|(name, container)| {
                let quotas = world.quotas(&container.spec);
                (name.clone(), quotas.into_iter().collect())
            })
            .collect()
    };
    let mut readings = Vec::new();
    for (name, quotas) in quotas {
        let Inner {
            containers,
            clients,
            ..
        } = inner;
        let Some(container) = containers.get_mut(&name) else {
            continue;
        };
        let living = look::living(container, clients);
        let Ok(region) = copy.read_head(container.files.usage()) else {
            continue;
        };
        look::count(container, region, Instant::now());
        for (uuid, _) in quotas {
            let reading = Reading::of(region, &uuid.0, |_, owner| living.contains_key(&owner));
            if let Some(reading) = reading {
                readings.push((container.listener.token, uuid, reading));
            }
        }
    }
    readings
}
