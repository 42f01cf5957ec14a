//! Who holds how much of which device.

use std::fmt;

use crate::layout::{Shared, Tenant};

/// One holder's part of one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) held: u64,
    pub(crate) requested: u64,
    pub(crate) peak_held: u64,
    pub(crate) peak_requested: u64,
}

impl Account {
    fn add(&mut self, held: u64, requested: u64) {
        self.held += held;
        self.requested += requested;
        self.peak_held = self.peak_held.max(self.held);
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    fn sub(&mut self, held: u64, requested: u64) {
        self.held = self.held.saturating_sub(held);
        self.requested = self.requested.saturating_sub(requested);
    }

    fn clear_peaks(&mut self) {
        self.peak_held = self.held;
        self.peak_requested = self.requested;
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            used: self.held,
            peak: self.peak_held,
            requested: self.requested,
            peak_requested: self.peak_requested,
        }
    }
}

/// What somebody holds of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What the device really holds: whole blocks, contexts, reserved pool memory.
    pub used: u64,
    /// The highest `used` so far.
    pub peak: u64,
    /// The exact bytes that were asked for.
    pub requested: u64,
    /// The highest `requested` so far.
    pub peak_requested: u64,
}

/// The device has fewer free bytes than asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was asked.
    pub asked: u64,
    /// What was free.
    pub free: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes asked, {} free", self.asked, self.free)
    }
}

impl std::error::Error for OutOfMemory {}

impl Shared {
    /// Gives `held` bytes of `device` to process `slot`.
    ///
    /// # Errors
    /// The device has fewer free bytes. Nothing is changed.
    pub(crate) fn charge(
        &mut self,
        slot: usize,
        device: usize,
        held: u64,
        requested: u64,
    ) -> Result<(), OutOfMemory> {
        let total = self.devices[device].total;
        let free = total.saturating_sub(self.devices[device].account.held);
        if held > free {
            return Err(OutOfMemory { asked: held, free });
        }
        // The process first: its account is the truth if this process dies between the lines.
        let tenant = self.processes[slot].tenant as usize;
        self.processes[slot].accounts[device].add(held, requested);
        self.tenants[tenant].accounts[device].add(held, requested);
        self.devices[device].account.add(held, requested);
        Ok(())
    }

    /// Takes back what `charge` gave.
    pub(crate) fn refund(&mut self, slot: usize, device: usize, held: u64, requested: u64) {
        // Never more than the process holds: the sums must not lose what others hold.
        let own = self.processes[slot].accounts[device];
        let (held, requested) = (held.min(own.held), requested.min(own.requested));
        let tenant = self.processes[slot].tenant as usize;
        self.processes[slot].accounts[device].sub(held, requested);
        self.tenants[tenant].accounts[device].sub(held, requested);
        self.devices[device].account.sub(held, requested);
    }

    /// Makes the sums agree with what each process holds.
    pub(crate) fn recompute_sums(&mut self) {
        for device in 0..self.device_count as usize {
            let mut sum = Account::default();
            let mut tenants = vec![Account::default(); self.tenants.len()];
            for process in self.processes[..self.slots_used as usize]
                .iter()
                .filter(|process| process.generation != 0)
            {
                let own = process.accounts[device];
                sum.add(own.held, own.requested);
                tenants[process.tenant as usize].add(own.held, own.requested);
            }
            for (tenant, sum) in self.tenants.iter_mut().zip(tenants) {
                set(&mut tenant.accounts[device], sum);
            }
            set(&mut self.devices[device].account, sum);
        }
    }

    pub(crate) fn clear_peaks(&mut self) {
        for device in 0..self.device_count as usize {
            self.devices[device].account.clear_peaks();
            for tenant in &mut self.tenants {
                tenant.accounts[device].clear_peaks();
            }
            for process in &mut self.processes {
                process.accounts[device].clear_peaks();
            }
        }
    }

    /// The entry for `label`, made if there is none. When all are taken, the last one is shared.
    pub(crate) fn tenant(&mut self, label: &str) -> usize {
        let same = |tenant: &Tenant| tenant.used != 0 && tenant.label() == label;
        if let Some(found) = self.tenants.iter().position(same) {
            return found;
        }
        let last = self.tenants.len() - 1;
        let free = self.tenants.iter().position(|tenant| tenant.used == 0);
        let index = free.unwrap_or(last);
        if free.is_some() {
            let bytes = label.as_bytes();
            let kept = bytes.len().min(self.tenants[index].label.len());
            self.tenants[index].label[..kept].copy_from_slice(&bytes[..kept]);
            self.tenants[index].used = 1;
        }
        index
    }
}

impl Tenant {
    pub(crate) fn label(&self) -> &str {
        let end = self
            .label
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(self.label.len());
        std::str::from_utf8(&self.label[..end]).unwrap_or("?")
    }
}

fn set(account: &mut Account, sum: Account) {
    account.held = sum.held;
    account.requested = sum.requested;
    account.peak_held = account.peak_held.max(sum.held);
    account.peak_requested = account.peak_requested.max(sum.requested);
}
