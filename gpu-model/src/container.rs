//! A container as its processes and the daemon see it: a usage region, and a policy where there is a daemon.

use limiter::{Engine, Rule, Seat, Terms};
use quota_abi::bucket::Rate;
use quota_abi::devices::{self, halves};
use quota_abi::layout::Region;
use quota_abi::life::Identity;
use quota_abi::policy::{Policy, mode};
use quota_abi::region::Mapped;
use quota_abi::slots::{self, Owner};
use quota_abi::sync::Ordering::Relaxed;
use quota_daemon::model::{Compute, Uuid};

use crate::world::World;

/// The UUID of a device of the model.
#[must_use]
pub fn uuid(device: usize) -> Uuid {
    let mut bytes = [0x40; 16];
    bytes[15] = u8::try_from(device + 1).unwrap_or(u8::MAX);
    Uuid(bytes)
}

/// A container.
pub struct Container {
    /// Its number with the daemon.
    pub number: u64,
    /// What its processes' variables say, on every device.
    own: Option<Rate>,
    /// What its processes write.
    pub region: &'static Region,
    /// What the daemon writes; `None` without one.
    pub policy: Option<&'static Policy>,
}

impl Container {
    /// One that may use so many devices, under a daemon or without one.
    ///
    /// # Errors
    /// There is no memory for its regions.
    pub fn new(number: u64, compute: Compute, devices: usize, ruled: bool) -> anyhow::Result<Self> {
        let region = Mapped::private().ok_or_else(no_memory)?.get();
        for device in 0..devices {
            anyhow::ensure!(devices::index_of(region, &uuid(device).0) == Some(device));
        }
        let policy = if ruled {
            let pages = quota_abi::map::anonymous(size_of::<Policy>()).ok_or_else(no_memory)?;
            // SAFETY: zeroed pages of our own are a policy, never unmapped.
            let policy: &'static Policy = unsafe { pages.cast::<Policy>().as_ref() };
            for (row, device) in policy.rows.iter().zip(0..devices) {
                let (key, rest) = halves(&uuid(device).0);
                row.key.store(key, Relaxed);
                row.rest.store(rest, Relaxed);
            }
            Some(policy)
        } else {
            None
        };
        Ok(Self {
            number,
            own: match compute {
                Compute::Limit { ppm } if !ruled => Rate::from_ppm(ppm),
                _ => None,
            },
            region,
            policy,
        })
    }

    /// Writes what is the container's own, as the daemon does.
    pub fn rule(&self, own_ppm: Option<u32>) {
        let Some(policy) = self.policy else {
            return;
        };
        for row in policy.rows.iter().filter(|row| row.uuid().is_some()) {
            row.rate.store(own_ppm.unwrap_or(0), Relaxed);
            let bits = if own_ppm.is_some() { mode::COMPUTE } else { 0 };
            row.mode.store(bits, Relaxed);
        }
        policy.header.generation.fetch_add(1, Relaxed);
    }

    /// Wakes whoever sleeps on its rows, as the daemon does that has changed them.
    pub fn wake(&self, world: &World, now: u64) {
        for row in self.policy.iter().flat_map(|policy| &policy.rows) {
            if row.uuid().is_some() {
                row.wake.fetch_add(1, Relaxed);
                world.wake(core::ptr::from_ref(&row.wake).addr(), now);
            }
        }
    }

    /// A new process of it: its slot, and what its owner word is.
    ///
    /// # Errors
    /// All slots are taken.
    pub fn seat(&self, pid: u32) -> anyhow::Result<(usize, u64)> {
        // A pid namespace of its own: no process of the model calls another one dead, which it would look for in /proc.
        let identity = Identity {
            pid,
            start: 1,
            namespace: 0x4000_0000 + u64::from(pid),
            image: 0,
        };
        let slot = slots::claim(self.region, &identity)
            .ok_or_else(|| anyhow::anyhow!("a container has no slot left"))?;
        Ok((slot, Owner::of(&identity).word()))
    }

    /// The engine of a process: held to the container's limit on each device, or by the daemon's row.
    pub fn engine(&self, slot: usize, pid: u32, devices: usize) -> &'static Engine {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
        let mut generation = None;
        let each = self.region.buckets.iter().zip(0..devices);
        for (bucket, device) in each {
            let rule = self.policy.and_then(|policy| {
                let row = policy.rows.get(device)?;
                Some(Rule { policy, row })
            });
            let terms: &'static Terms = Box::leak(Box::new(Terms {
                bucket,
                own: self.own,
                rule,
                seat: Some(Seat {
                    region: self.region,
                    device,
                    slot,
                    pid,
                }),
            }));
            generation = terms.generation();
            if let Some(place) = engine.device(device) {
                place.hold_to(terms);
            }
        }
        engine.watch(generation);
        engine
    }
}

fn no_memory() -> anyhow::Error {
    anyhow::anyhow!("there is no memory for a region")
}
