//! The thread that shares out GPU time: woken by bells, by what has changed, and as often as the controller asks.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use quota_abi::region::snapshot::Snapshot;
use rustix::thread::set_current_timer_slack;

use crate::model::Uuid;
use crate::sharing::{Controller, DeviceView, Member, Reading, Settings};

use super::core::{Core, Inner};
use super::look;
use super::policy::quotas;
use super::status::monotonic;

/// However often bells ring.
const AT_LEAST: Duration = Duration::from_millis(2);
/// The same while turns are dealt.
const TURNS_AT_LEAST: Duration = Duration::from_micros(50);

/// Runs until the core stops.
pub(super) fn run(core: &Core) {
    let mut controller = Controller::new(Settings::default());
    // A turn is dealt to a tenth of a millisecond, and the kernel may otherwise let a sleep last half of that longer.
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::debug!("timers stay as late as they are: {error}");
    }
    let Some(mut copy) = Snapshot::new() else {
        tracing::error!("no memory to look at usage regions: nothing is lent");
        return;
    };
    while !core.is_stopping() {
        let next = step(core, &mut controller, &mut copy);
        let begin = Instant::now();
        if next != Some(Duration::ZERO) {
            core.signal.wait(next);
        }
        // However often bells ring; while turns are dealt, one may end at any time.
        let pause = match next {
            Some(next) if next < AT_LEAST => TURNS_AT_LEAST,
            _ => AT_LEAST,
        };
        if let Some(rest) = pause.checked_sub(begin.elapsed()) {
            std::thread::sleep(rest);
        }
    }
}

fn step(core: &Core, controller: &mut Controller, copy: &mut Snapshot) -> Option<Duration> {
    let mut inner = core.lock();
    // As it was read last: turns come and go with a reload.
    controller.apply(Settings {
        turns: inner.config.daemon.turns,
    });
    let mut readings = read(&mut inner, copy);
    let mut views: BTreeMap<Uuid, DeviceView<'_>> = BTreeMap::new();
    for container in inner.containers.values() {
        let number = container.listener.token;
        for (uuid, quota) in quotas(&inner.devices, &container.spec) {
            let Some(row) = container.files.policy().row(&uuid.0) else {
                continue;
            };
            let member = Member {
                container: number,
                compute: quota.compute,
                priority: quota.priority,
                observe: quota.observe,
                reading: readings.remove(&(number, uuid)),
                row,
            };
            let view = views.entry(uuid).or_insert_with(|| DeviceView {
                uuid,
                members: Vec::new(),
            });
            view.members.push(member);
        }
    }
    let views: Vec<_> = views.into_values().collect();
    controller.step(monotonic(), &views)
}

/// What containers with living processes say of each device that they may use.
fn read(inner: &mut Inner, copy: &mut Snapshot) -> BTreeMap<(u64, Uuid), Reading> {
    let mut readings = BTreeMap::new();
    for container in inner.containers.values_mut() {
        if container.clients.is_empty() {
            continue;
        }
        let living = look::living(container, &inner.clients);
        let Ok(region) = copy.read_head(container.files.usage()) else {
            continue;
        };
        look::count(container, region, Instant::now());
        for row in &container.files.policy().rows {
            let Some(uuid) = row.uuid() else {
                continue;
            };
            let now = monotonic();
            let reading = Reading::of(now, region, &uuid, |_, owner| living.contains_key(&owner));
            if let Some(reading) = reading {
                readings.insert((container.listener.token, Uuid(uuid)), reading);
            }
        }
    }
    readings
}
