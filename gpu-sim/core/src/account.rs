//! Who holds how much of which device.

use std::fmt;

use crate::layout::{Shared, Tenant};

/// One holder's part of one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) now: Amount,
    /// The highest of each so far, not all of one moment.
    pub(crate) peak: Amount,
}

/// Bytes that are taken together.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) held: u64,
    pub(crate) requested: u64,
    /// The part of `requested` whose size the request itself told.
    pub(crate) exact: u64,
}

impl Amount {
    /// Of a context: held, and asked for by nobody.
    pub(crate) const fn overhead(held: u64) -> Self {
        Self {
            held,
            requested: 0,
            exact: 0,
        }
    }

    /// Each by itself.
    fn with(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            held: operation(self.held, other.held),
            requested: operation(self.requested, other.requested),
            exact: operation(self.exact, other.exact),
        }
    }
}

impl Account {
    fn add(&mut self, amount: Amount) {
        self.set(self.now.with(amount, |now, more| now + more));
    }

    fn sub(&mut self, amount: Amount) {
        self.now = self.now.with(amount, u64::saturating_sub);
    }

    fn set(&mut self, now: Amount) {
        self.now = now;
        self.peak = self.peak.with(now, u64::max);
    }

    fn clear_peaks(&mut self) {
        self.peak = self.now;
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            used: self.now.held,
            peak: self.peak.held,
            requested: self.now.requested,
            peak_requested: self.peak.requested,
            exact: self.now.exact,
            peak_exact: self.peak.exact,
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
    /// `requested` without what pools and graphs reserve, whose sizes the driver chooses.
    pub exact: u64,
    /// The highest `exact` so far.
    pub peak_exact: u64,
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
    /// Gives bytes of `device` to process `slot`.
    ///
    /// # Errors
    /// The device has fewer free bytes. Nothing is changed.
    pub(crate) fn charge(
        &mut self,
        slot: usize,
        device: usize,
        amount: Amount,
    ) -> Result<(), OutOfMemory> {
        let total = self.devices[device].total;
        let free = total.saturating_sub(self.devices[device].account.now.held);
        let asked = amount.held;
        if asked > free {
            return Err(OutOfMemory { asked, free });
        }
        // The process first: its account is the truth if this process dies between the lines.
        let tenant = self.processes[slot].tenant as usize;
        self.processes[slot].accounts[device].add(amount);
        self.tenants[tenant].accounts[device].add(amount);
        self.devices[device].account.add(amount);
        Ok(())
    }

    /// Gives process `slot` what another has given back under the same lock: no more was asked for, and no sum has a new peak.
    pub(crate) fn hand_over(&mut self, slot: usize, device: usize, amount: Amount) {
        let tenant = self.processes[slot].tenant as usize;
        self.processes[slot].accounts[device].add(amount);
        let more = |account: &mut Account| {
            account.now = account.now.with(amount, |now, more| now + more);
        };
        more(&mut self.tenants[tenant].accounts[device]);
        more(&mut self.devices[device].account);
    }

    /// Whether giving `amount` to process `slot` would make a new highest value of a sum: one that must not contain what
    /// the dead have left.
    pub(crate) fn would_peak(&self, slot: usize, device: usize, amount: Amount) -> bool {
        let tenant = self.processes[slot].tenant as usize;
        [
            self.tenants[tenant].accounts[device],
            self.devices[device].account,
        ]
        .iter()
        .any(|sum| {
            let then = sum.now.with(amount, |now, more| now + more);
            sum.peak.with(then, u64::max) != sum.peak
        })
    }

    /// Takes back what `charge` gave.
    pub(crate) fn refund(&mut self, slot: usize, device: usize, amount: Amount) {
        // Never more than the process holds: the sums must not lose what others hold.
        let own = self.processes[slot].accounts[device];
        let amount = amount.with(own.now, u64::min);
        let tenant = self.processes[slot].tenant as usize;
        self.processes[slot].accounts[device].sub(amount);
        self.tenants[tenant].accounts[device].sub(amount);
        self.devices[device].account.sub(amount);
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
                sum.add(own.now);
                tenants[process.tenant as usize].add(own.now);
            }
            for (tenant, sum) in self.tenants.iter_mut().zip(tenants) {
                tenant.accounts[device].set(sum.now);
            }
            self.devices[device].account.set(sum.now);
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
