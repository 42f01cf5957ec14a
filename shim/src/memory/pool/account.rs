//! What each pool is charged.

use cuda_headers::driver::CUmemoryPool;

use super::super::number_of;
use super::ask::{current_pool, default_pool, handle, key, reserved, trim};
use crate::device::Device;
use crate::guard::Aside;
use crate::process::{self, Process};
use crate::table::Table;

/// Pools that are looked at before a refusal; a program has one or two for each device.
const LOOKED_AT: usize = 64;

/// The pools that this process has allocated from.
pub(crate) struct Pools {
    pub(super) known: Table<Pool>,
}

#[derive(Copy, Clone)]
pub(super) struct Pool {
    /// Number of its device; `None` if its memory is not a device's.
    pub(super) device: Option<u16>,
    /// Bytes handed out.
    handed: u64,
    /// Bytes that the driver held when it was last asked.
    reserved: u64,
    /// Bytes charged.
    charged: u64,
    /// Destroyed; what it has handed out stays until it is freed.
    destroyed: bool,
}

impl Pools {
    pub(crate) const fn new() -> Self {
        Self {
            known: Table::new(),
        }
    }

    /// Takes note of memory that went back to its pool.
    pub(in crate::memory) fn freed(&self, device: &Device, key: u64, bytes: u64) {
        let refund = self.change(key, |pool| {
            pool.handed = pool.handed.saturating_sub(bytes);
            pool.lower()
        });
        device.refund(refund);
        self.forget(key);
    }

    /// Gives the device's pools' slack back to it. `true` if that made room.
    pub(in crate::memory) fn trim(&self, device: &Device) -> bool {
        let mut room = false;
        self.each_of(device, |key, handle| {
            trim(handle);
            room |= self.settle(device, key) > 0;
        });
        room
    }

    /// Asks the driver what it holds for the device's pools now.
    pub(in crate::memory) fn refresh(&self, device: &Device) {
        self.each_of(device, |key, _| {
            self.settle(device, key);
        });
    }

    /// Corrects a pool's charge by what the driver holds for it, whether it fits or not. Bytes given back.
    pub(super) fn settle(&self, device: &Device, key: u64) -> u64 {
        let (refund, growth) = self.learn(key);
        device.refund(refund);
        if growth > 0 {
            device.charge(growth);
            self.grow(key, growth);
        }
        refund
    }

    /// The same where what has just been allocated can still be undone: `false` if it does not fit.
    pub(super) fn admit(&self, device: &Device, key: u64) -> bool {
        for make_room in [true, false] {
            let (refund, growth) = self.learn(key);
            device.refund(refund);
            if growth == 0 {
                return true;
            }
            if let Some(reservation) = device.reserve(growth) {
                reservation.keep();
                self.grow(key, growth);
                return true;
            }
            if make_room {
                process::reap();
                trim(handle(key));
                self.each_of(device, |other, handle| {
                    if other != key {
                        trim(handle);
                        self.settle(device, other);
                    }
                });
            } else {
                device.denied(growth);
            }
        }
        false
    }

    /// Asks the driver what it holds for a pool, and lowers its charge. What to give back, and what is charged too little.
    fn learn(&self, key: u64) -> (u64, u64) {
        let Some(reserved) = reserved(handle(key)) else {
            return (0, 0);
        };
        let correct = |pool: &mut Pool| {
            pool.reserved = reserved;
            (pool.lower(), pool.wanted().saturating_sub(pool.charged))
        };
        self.known.with(key, correct).unwrap_or((0, 0))
    }

    fn grow(&self, key: u64, growth: u64) {
        self.change(key, |pool| {
            pool.charged = pool.charged.saturating_add(growth);
            0
        });
    }

    /// The pool that an allocation is taken from, and its device.
    pub(super) fn find<'a>(
        &self,
        process: &'a Process,
        pool: Option<CUmemoryPool>,
        current: &'a Device,
    ) -> Result<(u64, &'a Device), Aside> {
        let pool = pool.or_else(|| current_pool(current));
        // A driver that does not tell the pool: a name for it that is no handle.
        let key = pool.map_or(u64::from(number_of(current)) + 1, key);
        let owner = || {
            process
                .devices
                .iter()
                .find(|device| pool.is_some() && default_pool(device) == pool)
                .unwrap_or(current)
        };
        let known = match self.known.get(key) {
            Some(known) if !known.destroyed => known,
            _ => self
                .known
                .get_or_insert(key, Pool::new(Some(number_of(owner()))))
                .map_err(|_| Aside::Unknown)?,
        };
        let number = known.device.ok_or(Aside::NotDeviceMemory)?;
        let device = process.devices.by_number(number.into());
        Ok((key, device.ok_or(Aside::Unknown)?))
    }

    pub(super) fn change(&self, key: u64, change: impl FnOnce(&mut Pool) -> u64) -> u64 {
        self.known.with(key, change).unwrap_or(0)
    }

    /// Forgets a destroyed pool that has nothing left.
    pub(super) fn forget(&self, key: u64) {
        self.known
            .remove_if(key, |pool| pool.destroyed && pool.handed == 0);
    }

    /// Calls `visit` for each living pool of a device; not under the table's lock.
    fn each_of(&self, device: &Device, mut visit: impl FnMut(u64, CUmemoryPool)) {
        if self.known.is_empty() {
            return;
        }
        let mut keys = [0; LOOKED_AT];
        let mut count = 0;
        self.known.for_each(|key, pool| {
            if pool.device == Some(number_of(device))
                && !pool.destroyed
                && let Some(place) = keys.get_mut(count)
            {
                *place = key;
                count += 1;
            }
        });
        for key in keys.into_iter().take(count) {
            visit(key, handle(key));
        }
    }
}

impl Pool {
    pub(super) fn new(device: Option<u16>) -> Self {
        Self {
            device,
            handed: 0,
            reserved: 0,
            charged: 0,
            destroyed: false,
        }
    }

    /// What it should be charged.
    fn wanted(&self) -> u64 {
        self.handed.max(self.reserved)
    }

    /// Hands out `bytes`; what that adds to the charge.
    pub(super) fn hand_out(&mut self, bytes: u64) -> u64 {
        self.handed = self.handed.saturating_add(bytes);
        let growth = self.handed.saturating_sub(self.charged);
        self.charged = self.charged.saturating_add(growth);
        growth
    }

    /// Undoes [`Self::hand_out`], whose growth was not admitted.
    pub(super) fn take_back(&mut self, bytes: u64, growth: u64) -> u64 {
        self.handed = self.handed.saturating_sub(bytes);
        self.charged = self.charged.saturating_sub(growth);
        0
    }

    /// Lowers the charge to what is wanted; what to give back.
    fn lower(&mut self) -> u64 {
        let refund = self.charged.saturating_sub(self.wanted());
        self.charged -= refund;
        refund
    }

    pub(super) fn destroy(&mut self) -> u64 {
        self.destroyed = true;
        self.reserved = 0;
        self.lower()
    }
}
