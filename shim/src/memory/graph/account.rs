//! What each device's graph memory is charged: what the driver holds for it.

use cuda_headers::driver::{CUgraphExec, CUgraphMem_attribute as Attribute, CUresult, CUstream};

use super::super::{number_of, rounded};
use super::needs::{DEVICES, Needs};
use crate::device::{Device, Reservation, step_back};
use crate::driver::{call, relaxed};
use crate::numbers::Numbers;
use crate::process::{self, Process};
use crate::table::Table;

/// Tries to get what graphs that run at the moment will leave: half a second.
const TRIES: u32 = 300;

/// Executable graphs with memory nodes, and what devices hold for them.
pub(crate) struct Graphs {
    execs: Table<Exec>,
    /// By one more than the device's number.
    accounts: Table<Account>,
    questions: Numbers,
}

#[derive(Copy, Clone)]
struct Exec {
    needs: Needs,
    /// What [`Graphs::trims`] was when it last got its memory; 0: never.
    backed: u64,
}

/// A device's graph memory in this process.
#[derive(Copy, Clone, Default)]
struct Account {
    /// Bytes charged: what the driver held when it was last asked.
    charged: u64,
    /// Uploads and launches that are under way. What the driver takes for them they answer for themselves.
    pending: u32,
    /// Number of the question that told `charged`.
    asked: u64,
    /// How often the driver was found to have given memory back.
    trims: u64,
    /// Unused memory that those under way count on.
    promised: u64,
    /// The executable graph that was given its memory last.
    last: u64,
    /// How many have begun.
    begun: u64,
    /// Bytes that graphs have left in use, as far as is known: so many were when somebody had waited for them in vain.
    kept: u64,
    /// The stream on which all launches were since nothing was in use; 0: none yet.
    stream: u64,
}

/// Stands for streams that cannot be asked later, or more than one.
const SEVERAL: u64 = u64::MAX;

/// An upload or launch that is under way, and what is reserved for it.
pub(super) struct UnderWay<'a> {
    graphs: &'a Graphs,
    parts: [Option<Part<'a>>; DEVICES],
}

struct Part<'a> {
    device: &'a Device,
    reservation: Option<Reservation<'a>>,
    promised: u64,
}

/// What the driver has for the graphs of a device.
struct Held {
    reserved: u64,
    used: u64,
}

impl Graphs {
    pub(crate) const fn new() -> Self {
        Self {
            execs: Table::new(),
            accounts: Table::new(),
            questions: Numbers::new(),
        }
    }

    /// What an executable graph takes when it is launched. `None`: no memory.
    pub(super) fn needs(&self, exec: CUgraphExec) -> Option<Needs> {
        self.execs.get(key(exec)).map(|exec| exec.needs)
    }

    pub(super) fn add(&self, exec: CUgraphExec, needs: Needs) {
        let _ = self.execs.insert(key(exec), Exec { needs, backed: 0 });
    }

    pub(super) fn remove(&self, exec: CUgraphExec) -> Option<Needs> {
        self.execs.remove(key(exec)).map(|exec| exec.needs)
    }

    /// The graph has its memory, which stays until some is given back or another graph is given it.
    pub(super) fn backed(&self, process: &Process, exec: CUgraphExec) {
        let (trims, key) = (self.trims(process), key(exec));
        let needs = self.execs.with(key, |exec| {
            exec.backed = trims;
            exec.needs
        });
        for (device, _) in needs.iter().flat_map(|needs| needs.on(process)) {
            self.change(device, |account| account.last = key);
        }
    }

    /// The graph has been launched on a stream.
    pub(super) fn launched(&self, process: &Process, needs: &Needs, stream: CUstream) {
        let name = stream_name(stream);
        for (device, _) in needs.on(process) {
            self.change(device, |account| {
                account.stream = match account.stream {
                    0 => name,
                    same if same == name => name,
                    _ => SEVERAL,
                }
            });
        }
    }

    /// Where graphs have run on this stream only, and it has got to its end, what they use still is what they have left.
    fn look_at_stream(&self, device: &Device, stream: CUstream) {
        let name = stream_name(stream);
        let account = self.accounts.get(self::name(device));
        if name == SEVERAL || account.is_none_or(|account| account.stream != name) {
            return;
        }
        // SAFETY: the stream of the program's own call, which is not being captured.
        let answer = relaxed(|| unsafe { call!(cuStreamQuery(stream)) });
        if answer == CUresult::CUDA_SUCCESS {
            self.keeps(device);
        }
    }

    /// What is in use now is what graphs have left.
    fn keeps(&self, device: &Device) {
        if let Some(held) = held(device) {
            self.change(device, |account| account.kept = held.used);
        }
    }

    /// Whether it has had its memory, nothing was given back since, and no other graph has had any: graphs share memory, but not
    /// while they run side by side.
    pub(super) fn is_backed(&self, process: &Process, exec: CUgraphExec) -> bool {
        let key = key(exec);
        let Some(found) = self.execs.get(key) else {
            return false;
        };
        let is_last = |device: &Device| {
            let account = self.accounts.get(name(device));
            account.is_some_and(|account| account.last == key)
        };
        found.backed == self.trims(process)
            && found.needs.on(process).all(|(device, _)| is_last(device))
    }

    /// One more than how often memory of graphs was given back, on all devices.
    fn trims(&self, process: &Process) -> u64 {
        let of = |device: &Device| Some(self.accounts.get(name(device))?.trims);
        process.devices.iter().filter_map(of).sum::<u64>() + 1
    }

    /// Reserves what devices may have to give for an upload or launch; nothing but a count where a graph `has` its
    /// memory. `None` if it does not fit.
    pub(super) fn begin<'a>(
        &'a self,
        process: &'a Process,
        needs: &Needs,
        has: Option<CUgraphExec>,
        stream: CUstream,
    ) -> Option<UnderWay<'a>> {
        let has = has.map(key);
        let mut begun = UnderWay {
            graphs: self,
            parts: [const { None }; DEVICES],
        };
        for ((device, bytes), part) in needs.on(process).zip(&mut begun.parts) {
            let _ = self
                .accounts
                .get_or_insert(name(device), Account::default());
            let (reservation, promised) = self.enter(process, device, (bytes, has), stream)?;
            *part = Some(Part {
                device,
                reservation,
                promised,
            });
        }
        Some(begun)
    }

    /// Lets an upload or launch begin that needs `bytes`, and `has` them if it is the graph of this key that was given them
    /// last. Else what the driver holds unused may cover a part, on which nobody else then counts, and the rest is reserved;
    /// for that what nobody needs is given back. While graphs run whose memory this one could have afterwards, it waits a little;
    /// not again for what they were then found to keep.
    fn enter<'a>(
        &self,
        process: &Process,
        device: &'a Device,
        (bytes, has): (u64, Option<u64>),
        stream: CUstream,
    ) -> Option<(Option<Reservation<'a>>, u64)> {
        for tries in 0..TRIES {
            if let Some(entered) = self.try_enter(device, bytes, has) {
                return Some(entered);
            }
            if tries == 0 {
                process::reap();
                process.memory.deferred.settle(process);
                process.memory.pools.trim(device);
                self.trim(device);
                self.look_at_stream(device, stream);
            } else if self.may_become_unused(device) {
                step_back(tries);
            } else {
                return None;
            }
        }
        self.keeps(device);
        None
    }

    fn may_become_unused(&self, device: &Device) -> bool {
        let held = held(device);
        let account = self.accounts.get(name(device));
        account.is_some_and(|account| {
            account.pending > 0 || held.is_some_and(|held| held.used > account.kept)
        })
    }

    fn try_enter<'a>(
        &self,
        device: &'a Device,
        bytes: u64,
        has: Option<u64>,
    ) -> Option<(Option<Reservation<'a>>, u64)> {
        let before = self.accounts.get(name(device))?.begun;
        let held = held(device);
        let unused = held
            .as_ref()
            .map_or(0, |held| held.reserved.saturating_sub(held.used));
        let enter = |account: &mut Account| {
            let own = has.is_some_and(|key| account.last == key) && account.pending == 0;
            account.kept = held.as_ref().map_or(0, |held| held.used).min(account.kept);
            if !own && account.begun != before {
                // Somebody has begun meanwhile: what was unused may be used.
                return None;
            }
            let promised = if own {
                bytes
            } else {
                bytes.min(unused.saturating_sub(account.promised))
            };
            account.promised = account.promised.saturating_add(promised);
            account.pending += 1;
            account.begun += 1;
            Some((own, promised))
        };
        let (own, promised) = self.accounts.with(name(device), enter)??;
        if own {
            return Some((None, promised));
        }
        let reservation = device.reserve(bytes - promised);
        if reservation.is_none() {
            self.leave(device, promised);
        }
        Some((Some(reservation?), promised))
    }

    /// Gives back what no graph needs at the moment. `true` if that made room.
    pub(in crate::memory) fn trim(&self, device: &Device) -> bool {
        if self.charged(device) == 0 {
            return false;
        }
        // SAFETY: a device's handle.
        let _ = relaxed(|| unsafe { call!(cuDeviceGraphMemTrim(device.handle())) });
        self.settle(device)
    }

    fn charged(&self, device: &Device) -> u64 {
        self.accounts
            .get(name(device))
            .map_or(0, |account| account.charged)
    }

    /// Corrects the charge of a device on which graphs have had memory. `true` if something was given back.
    pub(in crate::memory) fn settle(&self, device: &Device) -> bool {
        if self.accounts.is_empty() || self.accounts.get(name(device)).is_none() {
            return false;
        }
        self.correct(device, None, 0).0
    }

    /// Sets the charge to what the driver holds: first from what is reserved for it. `own` of those under way are the
    /// caller's. Whether something was given back, and whether what was added was admitted.
    fn correct(
        &self,
        device: &Device,
        reservation: Option<Reservation<'_>>,
        own: u32,
    ) -> (bool, bool) {
        let question = self.questions.next();
        let Some(held) = held(device) else {
            return (false, true);
        };
        let (mut refund, mut growth) = (0, 0);
        self.change(device, |account| {
            // Of two that ask at once the later question has the newer answer; what others wait for, they charge.
            if question < account.asked || (reservation.is_none() && account.pending > own) {
                return;
            }
            account.asked = question;
            refund = account.charged.saturating_sub(held.reserved);
            growth = held.reserved.saturating_sub(account.charged);
            account.charged = held.reserved;
            account.kept = account.kept.min(held.used);
            account.trims += u64::from(refund > 0);
        });
        device.refund(refund);
        (refund > 0, charge(device, growth, reservation))
    }

    fn change(&self, device: &Device, change: impl FnOnce(&mut Account)) {
        self.accounts.with(name(device), change);
    }
}

impl UnderWay<'_> {
    /// The driver has been called: charges what it holds now. `false` if that is more than fits.
    pub(super) fn end(mut self) -> bool {
        let mut fits = true;
        for part in self.parts.iter_mut().filter_map(Option::take) {
            fits &= self.graphs.correct(part.device, part.reservation, 1).1;
            self.graphs.leave(part.device, part.promised);
        }
        fits
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        for part in self.parts.iter().flatten() {
            self.graphs.leave(part.device, part.promised);
        }
    }
}

impl Graphs {
    /// One less is under way.
    fn leave(&self, device: &Device, promised: u64) {
        self.change(device, |account| {
            account.promised = account.promised.saturating_sub(promised);
            account.pending = account.pending.saturating_sub(1);
        });
    }
}

/// Charges `bytes`, from what is reserved for it as far as that goes. `false` if the rest did not fit; it is charged all the
/// same.
fn charge(device: &Device, bytes: u64, reservation: Option<Reservation<'_>>) -> bool {
    let reserved = reservation.as_ref().map_or(0, Reservation::bytes);
    if bytes == 0 {
        // Nothing is kept of what was reserved.
        return true;
    }
    if let Some(reservation) = reservation {
        reservation.keep();
        device.refund(reserved.saturating_sub(bytes));
    }
    let rest = bytes.saturating_sub(reserved);
    if rest == 0 {
        return true;
    }
    if let Some(more) = device.reserve(rest) {
        more.keep();
        return true;
    }
    device.charge(rest);
    false
}

/// Asks the driver.
fn held(device: &Device) -> Option<Held> {
    let ask = |attribute| {
        let mut bytes = 0_u64;
        let value = (&raw mut bytes).cast();
        // SAFETY: a device's handle, and room for the attribute, which is 64 bits wide.
        let answer = unsafe {
            call!(cuDeviceGetGraphMemAttribute(
                device.handle(),
                attribute,
                value
            ))
        };
        (answer == CUresult::CUDA_SUCCESS).then_some(bytes)
    };
    relaxed(|| {
        Some(Held {
            reserved: rounded(ask(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?),
            used: ask(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
        })
    })
}

fn name(device: &Device) -> u64 {
    u64::from(number_of(device)) + 1
}

/// Default streams mean another one in each context or thread.
fn stream_name(stream: CUstream) -> u64 {
    match u64::try_from(stream.0.addr()) {
        Ok(0..=2) | Err(_) => SEVERAL,
        Ok(handle) => handle,
    }
}

fn key(exec: CUgraphExec) -> u64 {
    u64::try_from(exec.0.addr()).unwrap_or(0)
}
