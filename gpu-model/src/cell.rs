//! One cell of the grid: containers with programs on devices, and what each of them got.

use core::cell::RefCell;
use std::rc::Rc;

use anyhow::Result;
use quota_daemon::model::Compute;
use quota_daemon::sharing::Settings;

use crate::busy::Busy;
use crate::container::Container;
use crate::daemon::{self, Client};
use crate::host::{Host, Process};
use crate::params::{MS, Params, SECOND};
use crate::schemes::Limiter;
use crate::task::Task;
use crate::workload::Program;
use crate::world::{Run, START, World};

/// A container of a cell.
#[derive(Clone)]
pub struct Tenant {
    /// How it is ruled.
    pub compute: Compute,
    /// Who is served first.
    pub priority: i32,
    /// Its processes, each with its threads.
    pub processes: Vec<Vec<Program>>,
}

impl Tenant {
    /// One of one process and thread.
    #[must_use]
    pub fn new(compute: Compute, program: Program) -> Self {
        Self {
            compute,
            priority: 0,
            processes: vec![vec![program]],
        }
    }
}

/// Who rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Nobody.
    Bare,
    /// Each process its own variables.
    Alone,
    /// The daemon.
    Daemon {
        /// Whether it deals turns.
        turns: bool,
    },
}

/// What there is to run.
#[derive(Clone)]
pub struct Setup {
    /// The world.
    pub params: Params,
    /// GPUs.
    pub devices: usize,
    /// Streams of each context.
    pub streams: usize,
    /// Containers.
    pub tenants: Vec<Tenant>,
    /// Who rules.
    pub scheme: Scheme,
    /// What is left out of the figures.
    pub warm_up: u64,
    /// What is measured.
    pub measured: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// What a container got of a device.
#[derive(Clone, Debug, Default)]
pub struct Got {
    /// Per mille of the time, over all of it.
    pub share: f64,
    /// The same in each window of a second.
    pub windows: Vec<f64>,
    /// Events a second that the limiter recorded.
    pub events: f64,
    /// Launches a second.
    pub launches: f64,
    /// Per cent of the GPU's time that events took of it.
    pub event_cost: f64,
}

/// What came of a cell.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// For each container, for each device.
    pub got: Vec<Vec<Got>>,
    /// Changes of contexts a second, by device.
    pub switches: Vec<f64>,
    /// How long marked pieces of work took, by container.
    pub marked: Vec<Vec<u64>>,
    /// Waits of launches and how many were let through without time for them, by container.
    pub waits: Vec<(u64, u64)>,
}

/// Runs it.
///
/// # Errors
/// There is no memory.
pub fn run(setup: &Setup) -> Result<Outcome> {
    let world: &'static World = Box::leak(Box::new(World::new(
        setup.params.clone(),
        setup.devices,
        setup.seed,
    )));
    let mut run = Run::new(world);
    let ruled = matches!(setup.scheme, Scheme::Daemon { .. });
    let mut clients = Vec::new();
    let mut processes: Vec<Vec<Rc<Process>>> = Vec::new();
    let mut pid = 0_u32;
    for (number, tenant) in (1..).zip(&setup.tenants) {
        let mut container = Container::new(number, tenant.compute, setup.devices, ruled)?;
        container.priority = tenant.priority;
        let container = Rc::new(container);
        clients.push(Rc::new(Client {
            container,
            living: RefCell::default(),
        }));
    }
    if ruled {
        daemon::rule(&clients);
    }
    for (tenant, client) in setup.tenants.iter().zip(&clients) {
        let container = &client.container;
        let mut own = Vec::new();
        for threads in &tenant.processes {
            pid += 1;
            let (slot, owner) = container.seat(pid)?;
            client.living.borrow_mut().push(owner);
            let limiter = match setup.scheme {
                Scheme::Bare => Limiter::None,
                _ => Limiter::Engine(container.engine(slot, pid, setup.devices)),
            };
            let contexts = (0..setup.devices)
                .map(|device| world.device(device, |device| device.context(setup.streams)))
                .collect();
            let process = Rc::new(Process {
                limiter,
                contexts,
                marked: RefCell::default(),
            });
            for program in threads {
                let (process, program, seed) = (process.clone(), program.clone(), setup.seed);
                let begins = START + u64::from(pid) * 137_000;
                run.spawn(begins, move |number, now, yielder| {
                    let task = Task::new(world, number, now, yielder, seed);
                    program(&Host::new(&task, process));
                });
            }
            own.push(process);
        }
        processes.push(own);
    }
    if let Scheme::Daemon { turns } = setup.scheme {
        let (clients, devices, seed) = (clients.clone(), setup.devices, setup.seed);
        run.spawn(START, move |number, now, yielder| {
            let task = Task::new(world, number, now, yielder, seed);
            daemon::run(&task, &clients, devices, Settings { turns });
        });
    }
    let begin = START + setup.warm_up;
    let end = begin + setup.measured;
    run.until(begin);
    let before = counts(world, &processes);
    run.until(end);
    let after = counts(world, &processes);

    let mut outcome = Outcome::default();
    for (tenant, own) in processes.iter().enumerate() {
        let got = (0..setup.devices).map(|device| {
            let used: Vec<Busy> = own
                .iter()
                .map(|process| {
                    world.device(device, |held| held.used(process.contexts[device], end))
                })
                .collect();
            let part = |from: u64, to: u64| {
                let sum: u64 = used.iter().map(|busy| busy.between(from, to)).sum();
                sum as f64 * 1000.0 / (to - from) as f64
            };
            let seconds = setup.measured as f64 / SECOND as f64;
            let [events, launches, event_time] = core::array::from_fn(|which| {
                (after[tenant][device][which] - before[tenant][device][which]) as f64 / seconds
            });
            Got {
                share: part(begin, end),
                windows: (0..setup.measured / SECOND)
                    .map(|second| {
                        let from = begin + second * SECOND;
                        part(from, from + SECOND)
                    })
                    .collect(),
                events,
                launches,
                event_cost: event_time / 1e7,
            }
        });
        outcome.got.push(got.collect());
        let marked = own.iter().flat_map(|process| {
            let marked = process.marked.borrow();
            let late = marked.iter().filter(|(at, _)| *at >= begin);
            late.map(|(_, took)| *took).collect::<Vec<_>>()
        });
        outcome.marked.push(marked.collect());
        let reading = clients[tenant].container.region.buckets[0].read();
        outcome.waits.push((reading.waits, reading.forced));
    }
    outcome.switches = (0..setup.devices)
        .map(|device| {
            world.device(device, |held| held.switches) as f64 * 1e9 / (end - START) as f64
        })
        .collect();
    Ok(outcome)
}

type Counts = Vec<Vec<[u64; 3]>>;

/// Events, launches, and the time of the events, by container and device.
fn counts(world: &World, processes: &[Vec<Rc<Process>>]) -> Counts {
    processes
        .iter()
        .map(|own| {
            let devices = own.first().map_or(0, |process| process.contexts.len());
            (0..devices)
                .map(|device| {
                    let mut sum = [0; 3];
                    for process in own {
                        let counts =
                            world.device(device, |held| held.counts(process.contexts[device]));
                        for (sum, more) in sum.iter_mut().zip([counts.0, counts.1, counts.2]) {
                            *sum += more;
                        }
                    }
                    sum
                })
                .collect()
        })
        .collect()
}

/// One that measures ten seconds after one and a half.
#[must_use]
pub fn setup(scheme: Scheme, tenants: Vec<Tenant>) -> Setup {
    Setup {
        params: Params::default(),
        devices: 1,
        streams: 1,
        tenants,
        scheme,
        warm_up: 1500 * MS,
        measured: 10 * SECOND,
        seed: 1,
    }
}
