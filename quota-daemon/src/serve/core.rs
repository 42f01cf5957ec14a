//! The daemon's core: what it knows, behind one lock that nobody holds while waiting for anybody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use quota_abi::region::snapshot::Snapshot;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::cdi::Publisher;
use crate::config::Config;
use crate::model::{Device, Spec, Uuid};

use super::Error;
use super::bell::{Bell, Signal};
use super::clients::{Client, Key};
use super::container::Container;
use super::files::Files;
use super::handshake::Pending;
use super::overhead::Overhead;
use super::policy::World;
use super::settings::{Parts, Settings};
use super::sockets::Listener;
use super::state_dir::{StateDir, directory};

/// The core.
pub struct Core {
    pub(super) state: StateDir,
    pub(super) parts: Parts,
    /// Offers containers to container runtimes as devices, if that is configured.
    pub(super) publisher: Option<Publisher>,
    pub(super) inner: Mutex<Inner>,
    pub(super) epoll: OwnedFd,
    /// Wakes the event loop.
    pub(super) wake: OwnedFd,
    /// Wakes those who share out time.
    pub(super) signal: Arc<Signal>,
    pub(super) stopping: AtomicBool,
    /// Raised by each turn of the event loop.
    pub(super) turns: AtomicU64,
    pub(super) started_at: SystemTime,
}

/// What the event loop waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Somebody wants its attention.
    Wake,
    /// The host's socket.
    Host,
    /// A container's socket.
    Container(String),
    /// A connection whose question has not come yet.
    Pending,
    /// The death of a registered process.
    Client(Key),
}

/// What is behind the lock.
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) devices: Vec<Device>,
    pub(super) contexts: BTreeMap<Uuid, u64>,
    pub(super) containers: BTreeMap<String, Container>,
    pub(super) clients: HashMap<Key, Client>,
    pub(super) sources: HashMap<u64, Source>,
    /// By token, and so by age.
    pub(super) pending: BTreeMap<u64, Pending>,
    pub(super) host: Option<Listener>,
    /// Listeners that wait until their flood has ebbed.
    pub(super) asleep: BTreeSet<(Instant, u64)>,
    pub(super) copy: Snapshot,
    /// What was found wrong at the start.
    pub(super) troubles: Vec<String>,
    /// Containers that could not be opened, with what the configuration says of them and why not.
    pub(super) unopened: Vec<(Spec, Option<Spec>, String)>,
    /// When that is tried again.
    pub(super) retry_at: Instant,
    next_token: u64,
}

impl Inner {
    /// A number by which the event loop knows a descriptor; larger than all before.
    pub(super) fn token(&mut self, source: Source) -> u64 {
        self.next_token += 1;
        self.sources.insert(self.next_token, source);
        self.next_token
    }

    /// What holds for all containers.
    pub(super) fn world(&self) -> World<'_> {
        World::new(&self.devices, &self.contexts, self.specs())
    }

    /// What all containers are declared to have.
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> + Clone {
        self.containers.values().map(|container| &container.spec)
    }
}

impl Core {
    pub(super) fn new(settings: Settings, parts: Parts) -> Result<Self, Error> {
        let state = StateDir::take(&settings.config.daemon.state, settings.mount)?;
        let system = |step| move |error: rustix::io::Errno| Error::System(step, error.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("make an eventfd"))?;
        let no_memory = || Error::System("map memory", io::ErrorKind::OutOfMemory.into());
        let devices = parts.gpus.devices();
        let mut troubles = parts.warnings.clone();
        let publisher = Publisher::new(&settings.config).unwrap_or_else(|trouble| {
            tracing::error!("{trouble}");
            troubles.push(trouble);
            None
        });
        let core = Self {
            state,
            parts,
            publisher,
            inner: Mutex::new(Inner {
                config: settings.config,
                devices,
                contexts: BTreeMap::new(),
                containers: BTreeMap::new(),
                clients: HashMap::new(),
                sources: HashMap::new(),
                pending: BTreeMap::new(),
                host: None,
                asleep: BTreeSet::new(),
                copy: Snapshot::new().ok_or_else(no_memory)?,
                troubles,
                unopened: Vec::new(),
                retry_at: Instant::now(),
                next_token: 0,
            }),
            epoll,
            wake,
            signal: Arc::new(Signal::default()),
            stopping: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            started_at: SystemTime::now(),
        };
        let mut inner = core.inner.lock();
        let token = inner.token(Source::Wake);
        core.watch(&core.wake, token)?;
        drop(inner);
        Ok(core)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Makes the event loop wait for a descriptor.
    pub(super) fn watch(&self, descriptor: impl AsFd, token: u64) -> Result<(), Error> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)
            .map_err(|error| Error::System("watch a descriptor", error.into()))
    }

    /// Makes the event loop look at what it has to do.
    pub(super) fn nudge(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Makes a container: its directory, regions, socket and bell. One that an earlier daemon has left goes on as it is. Its
    /// policy is for the caller to write ([`Self::rewrite`]), once all are there whose shares depend on each other.
    pub(super) fn open(&self, inner: &mut Inner, spec: Spec) -> Result<(), Error> {
        let name = spec.name.clone();
        let directory_of_socket = self.state.container(&name);
        directory(&directory_of_socket, 0o755)?;
        directory(&self.state.clients(&name), 0o700)?;
        let files = match Files::open(&self.state, &name) {
            Ok(files) => files,
            Err(error) => {
                // Perhaps a tenant has filled the tmpfs by extending its usage region.
                tracing::debug!("again, after cutting usage regions back: {error}");
                trim(inner);
                Files::open(&self.state, &name)?
            }
        };
        for row in &files.policy().rows {
            super::policy::forget_loans(row);
        }
        let token = inner.token(Source::Container(name.clone()));
        let listener = Listener::bind(&self.socket(&name), token)?;
        self.watch(&listener.socket, token)?;
        if let Some(publisher) = &self.publisher {
            publisher.publish(&spec);
        }
        let bell = Bell::hang(files.policy(), &self.signal);
        let container = Container {
            spec,
            base: None,
            files,
            listener,
            _bell: bell,
            clients: BTreeSet::new(),
            damage: None,
            tallies: BTreeMap::new(),
            overhead: Overhead::default(),
            empty_since: Instant::now(),
        };
        if let Some(before) = inner.containers.insert(name, container) {
            inner.sources.remove(&before.listener.token);
        }
        Ok(())
    }

    /// Keeps files ready for containers to come.
    pub(super) fn fill_spares(&self, inner: &mut Inner) {
        if super::spares::fill(self.state.regions()).is_ok() {
            return;
        }
        trim(inner);
        if let Err(error) = super::spares::fill(self.state.regions())
            && let Some(suppressed) = crate::log::allowed("", "spares")
        {
            tracing::warn!(
                suppressed,
                "no files are kept ready for new containers: {error}"
            );
        }
    }

    /// Forgets a container that has no processes, and removes its files.
    pub(super) fn close(&self, inner: &mut Inner, name: &str) {
        let Some(container) = inner.containers.remove(name) else {
            return;
        };
        inner.sources.remove(&container.listener.token);
        self.parts.counters.waits.forget(name);
        if let Some(publisher) = &self.publisher {
            publisher.withdraw(name);
        }
        super::files::remove(&self.state, name);
        let _ = std::fs::remove_dir_all(self.state.clients(name));
        let _ = std::fs::remove_dir_all(self.state.container(name));
        tracing::info!(container = name, "forgotten");
    }

    /// Where a container's processes attach.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.state
            .container(name)
            .join(quota_abi::wire::SOCKET_NAME)
    }

    /// Writes all containers' policies again, where they differ.
    pub(super) fn rewrite(&self, inner: &Inner) {
        let world = inner.world();
        for container in inner.containers.values() {
            world.write(container.files.policy(), &container.spec);
        }
        self.signal.ring();
    }
}

/// Cuts back usage regions that were extended.
fn trim(inner: &mut Inner) {
    for container in inner.containers.values_mut() {
        container.check_size();
    }
}
