//! What each pool is charged, by an id of our own: the driver may give a destroyed pool's handle to a new one while we
//! are still told of the old one's memory.

use cuda_headers::driver::{CUmemoryPool, CUstream};
use quota_abi::sync::{AtomicBool, AtomicU32, Ordering};

use super::super::number_of;
use super::charge::{Place, Pool, State};
use super::streams::Streams;
use super::{Default, ask};
use crate::device::Device;
use crate::driver::relaxed;
use crate::lock::Lock;
use crate::numbers::Numbers;
use crate::process::{self, Process};
use crate::table::Table;

/// Pools that are visited at a time, since the driver is not called under a table's lock.
const AT_A_TIME: usize = 32;

/// Whether some pool holds more than it has handed out. The driver gives that back when the program waits for its work.
static SLACK: AtomicBool = AtomicBool::new(false);

/// Whether any pool's memory was freed in a stream's order.
static FREES: AtomicBool = AtomicBool::new(false);

/// Whether the end of a stream may matter to a pool.
#[inline]
pub(crate) fn knows_streams() -> bool {
    FREES.load(Ordering::Relaxed)
}

/// Whether there may be something to learn of the driver when the program has waited.
#[inline]
pub(crate) fn has_slack() -> bool {
    SLACK.load(Ordering::Relaxed)
}

/// The pools that this process has met.
pub(crate) struct Pools {
    pub(super) known: Table<Pool>,
    /// Ids by handle.
    pub(super) handles: Table<u64>,
    /// One thread at a time keeps a pool that nobody knows: of two ids for one pool, what one is charged would be lost with it.
    meeting: Lock<()>,
    /// Numbers ids and questions.
    next: Numbers,
    /// Requests that are being served, from whichever pool.
    pub(super) served: AtomicU32,
}

/// What is to be done about a pool's charge.
#[derive(Copy, Clone, Default)]
struct Correction {
    /// To be given back, and taken off already.
    refund: u64,
    /// Charged too little.
    growth: u64,
}

impl Pools {
    pub(crate) const fn new() -> Self {
        Self {
            known: Table::new(),
            handles: Table::new(),
            meeting: Lock::new(()),
            next: Numbers::new(),
            served: AtomicU32::new(0),
        }
    }

    /// Takes note of memory that went back to its pool.
    pub(in crate::memory) fn freed(&self, device: &Device, id: u64, bytes: u64) {
        device.refund(self.change(id, |pool| {
            pool.handed = pool.handed.saturating_sub(bytes);
            let refund = pool.lower();
            if pool.charged > pool.handed {
                SLACK.store(true, Ordering::Relaxed);
            }
            refund
        }));
        self.forget(id);
    }

    /// Gives the device's pools' slack back to it. `true` if that made room.
    pub(in crate::memory) fn trim(&self, device: &Device) -> bool {
        let mut room = false;
        self.each_of(device, |id, handle| {
            ask::trim(handle);
            room |= self.settle(device, id) > 0;
        });
        room
    }

    /// Asks the driver what it holds for the device's pools now.
    pub(in crate::memory) fn refresh(&self, device: &Device) {
        self.each_of(device, |id, _| {
            self.settle(device, id);
        });
    }

    /// The program has waited for its work, whereupon the driver gives unused memory back.
    pub(in crate::memory) fn waited(&self, process: &Process) {
        SLACK.store(false, Ordering::Relaxed);
        for device in process.devices.iter() {
            self.refresh(device);
        }
        self.known.for_each(|_, pool| {
            if pool.charged > pool.handed && pool.state != State::Destroyed {
                SLACK.store(true, Ordering::Relaxed);
            }
        });
    }

    /// A context is gone, and a device's own pool with it if it was the last there: everything that was handed out of a pool
    /// for which the driver holds nothing has ended. `forget` is called with the id of each.
    pub(in crate::memory) fn context_gone(&self, process: &Process, mut forget: impl FnMut(u64)) {
        self.streams_may_be_gone();
        for device in process.devices.iter() {
            self.each_of(device, |id, handle| {
                let is_empty = ask::reserved(handle) == Some(0);
                let emptied = |pool: Pool| is_empty && pool.state == State::BuiltIn;
                if self.known.get(id).is_some_and(emptied) {
                    forget(id);
                }
                self.settle(device, id);
            });
        }
    }

    /// Corrects a pool's charge by what the driver holds for it, whether it fits or not. Bytes given back.
    pub(super) fn settle(&self, device: &Device, id: u64) -> u64 {
        let is_pending = |pool: Pool| pool.pending > 0;
        let leaves_growth = self.known.get(id).is_some_and(is_pending);
        self.believe(device, id, leaves_growth)
    }

    /// The same for a pool whose last request was undone, of which the driver may keep the memory for a while. Whoever else is
    /// being served must not find room there.
    pub(super) fn undone(&self, device: &Device, id: u64) {
        self.believe(device, id, false);
        self.trim(device);
    }

    fn believe(&self, device: &Device, id: u64, leaves_growth: bool) -> u64 {
        let Correction { refund, growth } = self.learn(id);
        device.refund(refund);
        if growth > 0 && !leaves_growth {
            device.charge(growth);
            self.grow(id, growth);
        }
        refund
    }

    /// Corrects a pool's charge where what has just been allocated can still be undone: `false` if it does not fit, even after slack
    /// has been given back.
    pub(super) fn admit(&self, process: &Process, device: &Device, id: u64) -> bool {
        let fits = self.fits(process, device, id);
        self.change(id, |pool| {
            pool.pending = pool.pending.saturating_sub(1);
            0
        });
        fits
    }

    fn fits(&self, process: &Process, device: &Device, id: u64) -> bool {
        for last in [false, true] {
            let Correction { refund, growth } = self.learn(id);
            device.refund(refund);
            if growth == 0 {
                return true;
            }
            if let Some(reservation) = device.reserve(growth) {
                reservation.keep();
                self.grow(id, growth);
                return true;
            }
            if last {
                break;
            }
            process::reap();
            self.each_of(device, |other, handle| {
                ask::trim(handle);
                // What this one is charged too little is not forced upon it here.
                if other != id {
                    self.settle(device, other);
                }
            });
            process.memory.graphs.trim(device);
        }
        false
    }

    /// Asks the driver what it holds for a pool, and lowers its charge.
    fn learn(&self, id: u64) -> Correction {
        let Some(pool) = self.known.get(id) else {
            return Correction::default();
        };
        if pool.state == State::Destroyed {
            // Its handle may not be asked any more.
            return Correction::default();
        }
        let question = self.next.next();
        let Some(reserved) = relaxed(|| ask::reserved(ask::handle(pool.handle))) else {
            return Correction::default();
        };
        let correct = |pool: &mut Pool| {
            // Of two that ask at once the later question has the newer answer.
            if question > pool.asked {
                pool.asked = question;
                pool.reserved = reserved;
            }
            Correction {
                refund: pool.lower(),
                growth: pool.wanted().saturating_sub(pool.charged),
            }
        };
        self.known.with(id, correct).unwrap_or_default()
    }

    fn grow(&self, id: u64, growth: u64) {
        self.change(id, |pool| {
            pool.charged = pool.charged.saturating_add(growth);
            0
        });
    }

    /// Keeps a pool that has just been met, under a new id. A pool of the same handle is gone, whether we saw it go or not.
    pub(super) fn add(&self, handle: CUmemoryPool, place: Place) {
        let handle = ask::key(handle);
        let id = self.next.next();
        let fresh = Pool::new(handle, place, State::Alive);
        if self.known.insert(id, fresh).is_ok() {
            let _ = self.handles.insert(handle, id);
        }
    }

    /// The id of a pool, which is met now if it is not known.
    pub(super) fn find(
        &self,
        process: &Process,
        pool: CUmemoryPool,
        current: &Device,
    ) -> Option<u64> {
        let handle = ask::key(pool);
        if let Some(id) = self.handles.get(handle) {
            return Some(id);
        }
        let owner = process
            .devices
            .iter()
            .find(|device| ask::default_pool(device) == Some(pool));
        let (place, state) = match owner {
            Some(device) => (Place::Device(number_of(device)), State::BuiltIn),
            None => (ask::place(process, pool, current), State::Alive),
        };
        let _alone = self.meeting.lock();
        if let Some(id) = self.handles.get(handle) {
            return Some(id);
        }
        let id = self.next.next();
        let fresh = Pool::new(handle, place, state);
        self.known.insert(id, fresh).ok()?;
        self.handles.insert(handle, id).ok()?;
        Some(id)
    }

    /// Where a pool's memory lies.
    pub(super) fn place(&self, id: u64) -> Option<Place> {
        self.known.get(id).map(|pool| pool.place)
    }

    pub(super) fn change(&self, id: u64, change: impl FnOnce(&mut Pool) -> u64) -> u64 {
        self.known.with(id, change).unwrap_or(0)
    }

    /// Memory of the pool is about to be freed in a stream's order. `true` if the pool is destroyed: then nobody can be asked
    /// later what the driver still holds for it.
    pub(in crate::memory) fn frees_on(&self, id: u64, stream: (CUstream, Default)) -> bool {
        FREES.store(true, Ordering::Relaxed);
        let note = |pool: &mut Pool| {
            pool.streams.add(stream.0, stream.1);
            pool.state == State::Destroyed
        };
        self.known.with(id, note).unwrap_or(false)
    }

    /// A stream is destroyed.
    pub(super) fn stream_goes(&self, stream: CUstream) {
        let knows = |pool: &Pool| pool.streams.all().any(|known| known.0 == stream.0);
        self.each(&knows, &mut |id, _| {
            self.known.with(id, |pool| pool.streams.remove(stream));
        });
    }

    /// Streams end with their context, and nobody tells which.
    fn streams_may_be_gone(&self) {
        let knows = |pool: &Pool| pool.streams != Streams::NONE;
        self.each(&knows, &mut |id, _| {
            self.known.with(id, |pool| pool.streams = Streams::NONE);
        });
    }

    /// The streams on which a pool's memory was freed, if nothing of it is out.
    pub(super) fn emptied_on(&self, id: u64) -> Option<Streams> {
        let pool = self.known.get(id)?;
        (pool.handed == 0).then_some(pool.streams)
    }

    /// A pool has been destroyed, for which the driver held so much just before. What to give back.
    pub(super) fn destroyed(&self, id: u64, held: u64) -> u64 {
        let refund = self.change(id, |pool| {
            pool.state = State::Destroyed;
            pool.reserved = held;
            pool.lower()
        });
        let is_it = |other: &u64| *other == id;
        if let Some(pool) = self.known.get(id) {
            self.handles.remove_if(pool.handle, is_it);
        }
        self.forget(id);
        refund
    }

    /// Forgets a destroyed pool that has nothing left.
    fn forget(&self, id: u64) {
        self.known.remove_if(id, |pool| {
            pool.state == State::Destroyed && pool.handed == 0
        });
    }

    /// Calls `visit` for each living pool of a device, our own driver calls in it being relaxed.
    fn each_of(&self, device: &Device, mut visit: impl FnMut(u64, CUmemoryPool)) {
        let here = Place::Device(number_of(device));
        let wanted = |pool: &Pool| pool.place == here && pool.state != State::Destroyed;
        self.each(&wanted, &mut |id, handle| {
            relaxed(|| visit(id, ask::handle(handle)));
        });
    }

    /// Calls `visit` with the id and handle of each pool that is wanted; not under the table's lock.
    #[cold]
    #[inline(never)]
    fn each(&self, wanted: &dyn Fn(&Pool) -> bool, visit: &mut dyn FnMut(u64, u64)) {
        if self.known.is_empty() {
            return;
        }
        let mut after = 0;
        loop {
            // The lowest ids past the last one seen, in order.
            let mut found = [(u64::MAX, 0); AT_A_TIME];
            self.known.for_each(|id, pool| {
                if id > after && wanted(pool) {
                    insert(&mut found, (id, pool.handle));
                }
            });
            for (id, handle) in found {
                if id == u64::MAX {
                    return;
                }
                after = id;
                visit(id, handle);
            }
        }
    }
}

/// Puts an entry into its place among the lowest.
fn insert(lowest: &mut [(u64, u64)], mut entry: (u64, u64)) {
    for place in lowest {
        if entry.0 < place.0 {
            core::mem::swap(place, &mut entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_are_kept_in_order() {
        let mut found = [(u64::MAX, 0); 3];
        for id in [5, 2, 9, 7, 1] {
            insert(&mut found, (id, 0));
        }
        assert_eq!(found.map(|(id, _)| id), [1, 2, 5]);
    }
}
