//! Plain memory that is freed in a stream's order: the device holds it until the stream gets there, and so it stays charged.
//!
//! Where the stream is not idle anyway, an event behind the free tells. It is looked at when the memory is wanted or shown, and when
//! the program has waited for its work. An event goes with its context: it is given up before the driver destroys that.

use cuda_headers::driver::{CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream};
use quota_abi::sync::{AtomicBool, AtomicU64, Ordering};

use super::pool::{Default, STREAMS};
use super::{Owner, Record, freed, give_back, ipc, linear, remember, waited};
use crate::context;
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::lock::Lock;
use crate::process::{self, Process};
use crate::table::Table;

/// Entries that are looked at in one go.
const AT_A_TIME: usize = 64;

/// Frees whose streams have not been seen to get there.
pub(crate) struct Deferred {
    waiting: Table<Waiting>,
    next: AtomicU64,
    /// Held while events are looked at or given up: not by a call that waits.
    events: Lock<()>,
}

#[derive(Copy, Clone)]
struct Waiting {
    record: Record,
    /// Events behind the free; 0 is none, or one that has been given up, which counts as over.
    events: [usize; STREAMS],
    /// The context of the events.
    context: u32,
}

/// Whether anything waits.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there may be frees whose streams have got there meanwhile.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// `cuMemFreeAsync`, of whatever kind the memory is.
pub(crate) fn free(
    address: CUdeviceptr,
    stream: (CUstream, Default),
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let addresses = &process.memory.addresses;
    let Some(record) = addresses.remove(address) else {
        return linear::free_others(process, address, call);
    };
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        remember(process, addresses, address, record);
    } else if !outlasts(process, record, stream) || !defer(process, address, record, stream) {
        freed(process, address, record);
        waited::perhaps(process);
    }
    Ok(answer)
}

/// Whether nobody will be able to say later when the memory is given back: a pool that lives tells what it holds.
fn outlasts(process: &Process, record: Record, stream: (CUstream, Default)) -> bool {
    match record.owner() {
        Owner::Pool(id) => process.memory.pools.frees_on(id, stream),
        Owner::Context(_) => true,
    }
}

/// Keeps `bytes` charged until streams have got to where they are now, and gives back what of the `charged` is more.
pub(super) fn keep(
    process: &'static Process,
    device: &Device,
    charged: u64,
    bytes: u64,
    streams: impl Iterator<Item = CUstream>,
) {
    let kept = bytes.min(charged);
    device.refund(charged - kept);
    let mut events = [0; STREAMS];
    let marks = streams.filter_map(|stream| relaxed(|| mark(stream, Default::Legacy)));
    for (place, event) in events.iter_mut().zip(marks) {
        *place = event;
    }
    let record = Record::new(kept, device, Owner::Context(0));
    let context = context::current(process).map_or(0, |context| context.id);
    if events == [0; STREAMS] || !wait(process, record, events, context) {
        device.refund(kept);
    }
}

/// Keeps memory charged until its stream has got there. `false` if it has, or if nobody can tell.
fn defer(
    process: &'static Process,
    address: CUdeviceptr,
    record: Record,
    (stream, default): (CUstream, Default),
) -> bool {
    let Ok(context) = context::current(process) else {
        return false;
    };
    let Some(event) = relaxed(|| mark(stream, default)) else {
        return false;
    };
    if let Some(device) = process.devices.by_number(record.device()) {
        // Another allocation may get the address from here on.
        ipc::freed(process, device, address);
    }
    let mut events = [0; STREAMS];
    if let Some(first) = events.first_mut() {
        *first = event;
    }
    wait(process, record, events, context.id)
}

fn wait(process: &Process, record: Record, events: [usize; STREAMS], context: u32) -> bool {
    let deferred = &process.memory.deferred;
    let number = deferred.next.fetch_add(1, Ordering::Relaxed);
    let waiting = Waiting {
        record,
        events,
        context,
    };
    let kept = deferred.waiting.insert(number, waiting).is_ok();
    ANY.store(true, Ordering::Relaxed);
    kept
}

/// An event at the end of a stream; `None` if the stream is idle.
fn mark(stream: CUstream, default: Default) -> Option<usize> {
    let mut event = CUevent(core::ptr::null_mut());
    let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    // SAFETY: the stream of the program's own call, a live out-pointer, and the event that was written there.
    unsafe {
        let query = match default {
            Default::Legacy => call!(cuStreamQuery(stream)),
            Default::PerThread => call!(cuStreamQuery_ptsz(stream)),
        };
        if query != CUresult::CUDA_ERROR_NOT_READY
            || call!(cuEventCreate(&raw mut event, flags)) != CUresult::CUDA_SUCCESS
        {
            return None;
        }
        let recorded = match default {
            Default::Legacy => call!(cuEventRecord(event, stream)),
            Default::PerThread => call!(cuEventRecord_ptsz(event, stream)),
        };
        if recorded != CUresult::CUDA_SUCCESS {
            call!(cuEventDestroy_v2(event));
            return None;
        }
    }
    Some(event.0.expose_provenance())
}

impl Deferred {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Table::new(),
            next: AtomicU64::new(1),
            events: Lock::new(()),
        }
    }

    /// Gives back what streams have got to. `true` if there was any.
    pub(super) fn settle(&self, process: &Process) -> bool {
        if !any() {
            return false;
        }
        let mut room = false;
        self.each(|number, waiting| {
            if !relaxed(|| waiting.events.into_iter().all(is_over)) {
                return;
            }
            if self.waiting.remove(number).is_some() {
                room = true;
                relaxed(|| waiting.events.into_iter().for_each(destroy));
                give_back(process, waiting.record);
            }
        });
        ANY.store(false, Ordering::Relaxed);
        // Whatever has come in the meantime counts.
        self.waiting
            .for_each(|_, _| ANY.store(true, Ordering::Relaxed));
        room
    }

    /// A context may be about to go, whose events then may not be asked any more; any may where it is not known which.
    pub(crate) fn context_goes(&self, context: Option<u32>) {
        if !any() {
            return;
        }
        self.each(|number, waiting| {
            if context.is_none_or(|id| waiting.context == id) {
                let none = [0; STREAMS];
                self.waiting.with(number, |waiting| waiting.events = none);
                relaxed(|| waiting.events.into_iter().for_each(destroy));
            }
        });
    }

    /// Shows all of them, one thread at a time; not under the table's lock.
    fn each(&self, mut show: impl FnMut(u64, Waiting)) {
        let events = self.events.lock();
        let mut after = 0;
        loop {
            // The lowest numbers past the last one seen, in order.
            let mut numbers = [u64::MAX; AT_A_TIME];
            self.waiting.for_each(|mut number, _| {
                if number <= after {
                    return;
                }
                for place in &mut numbers {
                    if number < *place {
                        core::mem::swap(place, &mut number);
                    }
                }
            });
            for number in numbers {
                if number == u64::MAX {
                    drop(events);
                    return;
                }
                after = number;
                if let Some(waiting) = self.waiting.get(number) {
                    show(number, waiting);
                }
            }
        }
    }
}

fn is_over(event: usize) -> bool {
    // SAFETY: an event of `mark` whose context has not gone.
    event == 0 || unsafe { call!(cuEventQuery(handle(event))) } != CUresult::CUDA_ERROR_NOT_READY
}

fn destroy(event: usize) {
    if event != 0 {
        // SAFETY: an event of `mark` that nobody else knows.
        unsafe { call!(cuEventDestroy_v2(handle(event))) };
    }
}

fn handle(event: usize) -> CUevent {
    CUevent(core::ptr::with_exposed_provenance_mut(event))
}
