//! Runs a cell.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::Result;
use quota_daemon::sharing::{Settings, own_ppm};

use crate::cell::{Deed, Scheme, Setup};
use crate::container::Container;
use crate::daemon::{self, Client};
use crate::host::{Host, Process};
use crate::outcome::{self, Outcome};
use crate::schemes::{self, Blocks, Limiter, Wall};
use crate::task::Task;
use crate::world::{Run, START, World};

/// A process with its threads.
pub(crate) struct Running {
    pub(crate) process: Rc<Process>,
    threads: Vec<usize>,
    owner: u64,
}

/// A cell while it runs.
pub(crate) struct Stage {
    pub(crate) world: Rc<World>,
    pub(crate) clients: Vec<Rc<Client>>,
    /// Processes by container.
    pub(crate) processes: Vec<Vec<Running>>,
    run: Run,
    setup: Setup,
    daemon: Option<usize>,
    pids: u32,
}

/// Runs a cell.
///
/// # Errors
/// There is no memory.
pub fn run(setup: &Setup) -> Result<Outcome> {
    let mut stage = Stage::new(setup)?;
    let begin = START + setup.warm_up;
    let end = begin + setup.measured;
    stage.until(begin);
    let before = outcome::counts(&stage);
    stage.until(end);
    Ok(outcome::of(&stage, &before, begin, end))
}

impl Stage {
    /// How many GPUs there are.
    pub(crate) fn devices(&self) -> usize {
        self.setup.devices
    }

    fn new(setup: &Setup) -> Result<Self> {
        let world = World::new(setup.params.clone(), setup.devices, setup.seed);
        let world = Rc::new(world);
        let mut clients = Vec::new();
        for (number, tenant) in (1..).zip(&setup.tenants) {
            let ruled = setup.scheme.is_ruled();
            let container = Container::new(number, tenant.compute, setup.devices, ruled)?;
            clients.push(Rc::new(Client {
                container,
                priority: tenant.priority,
                compute: Cell::new(tenant.compute),
                living: RefCell::default(),
            }));
        }
        daemon::rule(&clients);
        let mut stage = Self {
            run: Run::new(world.clone()),
            world,
            clients,
            processes: Vec::new(),
            setup: setup.clone(),
            daemon: None,
            pids: 0,
        };
        for tenant in 0..setup.tenants.len() {
            stage.begin(tenant)?;
        }
        stage.start_daemon(START);
        Ok(stage)
    }

    /// The other scheme that a container is under, if it is.
    fn other(&self, tenant: usize) -> Option<Rc<dyn schemes::Scheme>> {
        let all = self.clients.iter().map(|client| client.compute.get());
        let ppm = own_ppm(self.clients[tenant].compute.get(), all)?;
        match self.setup.scheme {
            Scheme::Blocks => Some(Rc::new(Blocks::new(ppm))),
            Scheme::Wall => Some(Rc::new(Wall::new(ppm))),
            _ => None,
        }
    }

    fn begin(&mut self, tenant: usize) -> Result<()> {
        let other = self.other(tenant);
        let client = self.clients[tenant].clone();
        let mut own = Vec::new();
        for programs in self.setup.tenants[tenant].processes.clone() {
            self.pids += 1;
            let pid = self.pids;
            let (slot, owner) = client.container.seat(pid)?;
            client.living.borrow_mut().push(owner);
            let (world, streams) = (&self.world, self.setup.streams);
            let contexts: Vec<_> = (0..self.setup.devices)
                .map(|device| world.device(device, |device| device.context(streams)))
                .collect();
            let limiter = match (&other, self.setup.scheme) {
                (Some(other), _) => {
                    other.joins(&contexts);
                    Limiter::Other(other.clone())
                }
                (None, Scheme::Alone | Scheme::Turns | Scheme::Slices) => {
                    Limiter::Engine(client.container.engine(slot, pid, self.setup.devices))
                }
                (None, _) => Limiter::None,
            };
            let process = Rc::new(Process {
                limiter,
                done_at: vec![Cell::new(0); contexts.len()],
                contexts,
                marked: RefCell::default(),
            });
            let mut threads = Vec::new();
            for program in programs {
                let (process, seed) = (process.clone(), self.setup.seed);
                let world = world.clone();
                // Not all at the same moment.
                let begins = START + u64::from(pid) * 137_000;
                threads.push(self.run.spawn(begins, move |number, now, yielder| {
                    let task = Task::new(world, number, now, yielder, seed);
                    program(&Host::new(&task, process));
                }));
            }
            own.push(Running {
                process,
                threads,
                owner,
            });
        }
        self.processes.push(own);
        Ok(())
    }

    fn start_daemon(&mut self, now: u64) {
        if !self.setup.scheme.is_ruled() {
            return;
        }
        let (clients, devices) = (self.clients.clone(), self.setup.devices);
        let (world, seed) = (self.world.clone(), self.setup.seed);
        let settings = Settings {
            turns: self.setup.scheme == Scheme::Turns,
        };
        self.daemon = Some(self.run.spawn(now, move |number, now, yielder| {
            let task = Task::new(world, number, now, yielder, seed);
            daemon::run(&task, &clients, devices, settings);
        }));
    }

    /// Goes on until a time, with what is to be done before it.
    fn until(&mut self, until: u64) {
        while let Some((after, deed)) = self.setup.deeds.first().copied()
            && START + after <= until
        {
            self.setup.deeds.remove(0);
            self.run.until(START + after);
            self.act(deed, START + after);
        }
        self.run.until(until);
    }

    fn act(&mut self, deed: Deed, now: u64) {
        match deed {
            Deed::Kill(tenant, process) => {
                let running = &self.processes[tenant][process];
                for thread in &running.threads {
                    self.run.kill(*thread);
                }
                for (device, context) in running.process.contexts.iter().enumerate() {
                    let destroy = |held: &mut crate::device::Device| held.destroy(*context, now);
                    self.world.device(device, destroy);
                }
                let owner = running.owner;
                let living = &self.clients[tenant].living;
                living.borrow_mut().retain(|other| *other != owner);
            }
            Deed::KillDaemon => {
                if let Some(daemon) = self.daemon.take() {
                    self.run.kill(daemon);
                }
            }
            Deed::StartDaemon => self.start_daemon(now),
            Deed::Rule(tenant, compute) => {
                self.clients[tenant].compute.set(compute);
                daemon::rule(&self.clients);
                for client in &self.clients {
                    client.container.wake(&self.world, now);
                }
            }
        }
    }
}
