//! The daemon: the real controller, which looks when bells ring and as often as it asks.

use core::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use quota_abi::sync::Ordering::Relaxed;
use quota_daemon::model::Compute;
use quota_daemon::sharing::{Controller, DeviceView, Member, Reading, Settings, own_ppm};

use crate::container::{Container, uuid};
use crate::device::NEVER;
use crate::task::Task;

/// However often bells ring. As `quota_daemon::serve` has it.
const AT_LEAST: Duration = Duration::from_millis(2);
/// The same while turns are dealt.
const TURNS_AT_LEAST: Duration = Duration::from_micros(50);

/// What the daemon knows of one container besides its regions.
pub struct Client {
    /// The container.
    pub container: Container,
    /// Who is served first.
    pub priority: i32,
    /// How it is ruled now.
    pub compute: Cell<Compute>,
    /// The owner words of its living processes.
    pub living: RefCell<Vec<u64>>,
}

/// Writes every container's own rate, as a daemon does that has read its configuration.
pub fn rule(clients: &[Rc<Client>]) {
    for client in clients {
        let all = clients.iter().map(|client| client.compute.get());
        client.container.rule(own_ppm(client.compute.get(), all));
    }
}

/// Runs until it is killed.
pub fn run(task: &Task<'_>, clients: &[Rc<Client>], devices: usize, settings: Settings) {
    let mut controller = Controller::new(settings);
    loop {
        let next = step(task, &mut controller, clients, devices);
        let begin = task.now();
        let until = next.map_or(NEVER, |next| begin + nanoseconds(next));
        wait_for_bells(task, clients, until);
        let pause = match next {
            Some(next) if next < AT_LEAST => TURNS_AT_LEAST,
            _ => AT_LEAST,
        };
        let waited = task.now() - begin;
        if waited < nanoseconds(pause) {
            task.sleep(nanoseconds(pause) - waited);
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// A thread for each bell wakes the one that shares; here that is one sleep on all of them.
fn wait_for_bells(task: &Task<'_>, clients: &[Rc<Client>], until: u64) {
    let bells = clients.iter().filter_map(|client| client.container.policy);
    for policy in bells {
        let bell = core::ptr::from_ref(&policy.header.bell).addr();
        task.world.sleeps_on(bell, task.number);
    }
    task.sleep_on(0, until);
}

fn step(
    task: &Task<'_>,
    controller: &mut Controller,
    clients: &[Rc<Client>],
    devices: usize,
) -> Option<Duration> {
    task.catch_up();
    let mut readings = Vec::new();
    for client in clients {
        task.pass(task.world.params.look);
        task.catch_up();
        let living = client.living.borrow();
        for device in 0..devices {
            let region = client.container.region;
            let reading = Reading::of(task.now(), region, &uuid(device).0, |_, owner| {
                living.contains(&owner)
            });
            // One whose processes have all gone is not read at all.
            readings.push(reading.filter(|_| !living.is_empty()));
        }
    }
    let views: Vec<_> = (0..devices)
        .map(|device| DeviceView {
            uuid: uuid(device),
            members: clients
                .iter()
                .enumerate()
                .filter_map(|(index, client)| {
                    let container = &client.container;
                    Some(Member {
                        container: container.number,
                        compute: client.compute.get(),
                        priority: client.priority,
                        observe: false,
                        reading: readings.get(index * devices + device).copied().flatten(),
                        row: container.policy?.rows.get(device)?,
                    })
                })
                .collect(),
        })
        .collect();
    let words = || {
        let members = views.iter().flat_map(|view| &view.members);
        members.map(|member| &member.row.wake)
    };
    let before: Vec<_> = words().map(|word| word.load(Relaxed)).collect();
    let next = controller.step(task.now(), &views);
    for (word, before) in words().zip(before) {
        if word.load(Relaxed) != before {
            task.pass(task.world.params.write);
            task.catch_up();
            task.world
                .wake(core::ptr::from_ref(word).addr(), task.now());
        }
    }
    next
}
