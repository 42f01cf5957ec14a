//! Plain memory that is freed in a stream's order: the device holds it until the stream gets there, and so it stays charged.
//!
//! Where the stream is not idle anyway, an event behind the free tells. It is looked at when the memory is wanted or shown, and when
//! the program has waited for its work. An event goes with its context, and is not looked at while that may be going.

use cuda_headers::driver::{CUcontext, CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream};
use quota_abi::sync::{AtomicBool, Ordering};

use super::pool::{Default, STREAMS};
use super::{Owner, Record, freed, give_back, ipc, linear, put_back, waited};
use crate::context;
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::lock::Lock;
use crate::numbers::Numbers;
use crate::process::{self, Process};
use crate::table::Table;

/// Entries that are looked at in one go.
const AT_A_TIME: usize = 64;

/// Frees whose streams have not been seen to get there.
pub(crate) struct Deferred {
    waiting: Table<Waiting>,
    next: Numbers,
    /// Held while events are looked at or forgotten: not by a call that waits.
    events: Lock<Going>,
}

/// Most contexts that go at the same time and are told apart.
const TOLD_APART: usize = 8;

/// Contexts that may be going at this moment: the driver may take long to end one, and meanwhile others work on.
struct Going {
    /// Their numbers; 0: nobody.
    contexts: [u32; TOLD_APART],
    /// How many more, of which any may be meant.
    others: u32,
}

impl Going {
    fn concerns(&self, mark: Mark) -> bool {
        mark.event != 0 && (self.others > 0 || self.contexts.contains(&mark.context))
    }
}

#[derive(Copy, Clone)]
struct Waiting {
    record: Record,
    marks: [Mark; STREAMS],
}

/// An event behind a free.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Mark {
    /// 0 is none, or one that went with its context, which has waited for its work.
    event: usize,
    /// The event's context, which is its stream's.
    context: u32,
}

impl Mark {
    const NONE: Self = Self {
        event: 0,
        context: 0,
    };
}

/// A context may be about to go: meanwhile its events are not looked at.
pub(crate) struct Paused<'a> {
    deferred: &'a Deferred,
    /// Where its number is.
    place: Option<usize>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let mut going = self.deferred.events.lock();
        match self.place.and_then(|place| going.contexts.get_mut(place)) {
            Some(place) => *place = 0,
            None => going.others -= 1,
        }
    }
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
        put_back(process, addresses, address, record);
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
    let mut marks = [Mark::NONE; STREAMS];
    let made = streams.filter_map(|stream| relaxed(|| mark(process, stream, Default::Legacy)));
    for (place, mark) in marks.iter_mut().zip(made) {
        *place = mark;
    }
    let record = Record::new(kept, device, Owner::Context(0));
    if marks == [Mark::NONE; STREAMS] || !wait(process, record, marks) {
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
    let Some(mark) = relaxed(|| mark(process, stream, default)) else {
        return false;
    };
    if let Some(device) = process.devices.by_number(record.device()) {
        // Another allocation may get the address from here on.
        ipc::freed(process, device, address);
    }
    let mut marks = [Mark::NONE; STREAMS];
    if let Some(first) = marks.first_mut() {
        *first = mark;
    }
    wait(process, record, marks)
}

fn wait(process: &Process, record: Record, marks: [Mark; STREAMS]) -> bool {
    let deferred = &process.memory.deferred;
    let number = deferred.next.next();
    let waiting = Waiting { record, marks };
    let kept = deferred.waiting.insert(number, waiting).is_ok();
    ANY.store(true, Ordering::Relaxed);
    kept
}

/// An event at the end of a stream; `None` if the stream is idle.
fn mark(process: &'static Process, stream: CUstream, default: Default) -> Option<Mark> {
    // SAFETY: the stream of the program's own call, or one that is known to live.
    let query = unsafe {
        match default {
            Default::Legacy => call!(cuStreamQuery(stream)),
            Default::PerThread => call!(cuStreamQuery_ptsz(stream)),
        }
    };
    if query != CUresult::CUDA_ERROR_NOT_READY {
        return None;
    }
    // An event can only be recorded on streams of its own context.
    let current = context::current(process).ok();
    let (handle, own) = context::of_stream(process, stream)?;
    if current.is_some_and(|current| current.id == own) {
        return record_event(stream, default, own);
    }
    let mut popped = CUcontext(core::ptr::null_mut());
    // SAFETY: the context of a stream that lives; popped again below.
    if unsafe { call!(cuCtxPushCurrent_v2(handle)) } != CUresult::CUDA_SUCCESS {
        return None;
    }
    let mark = record_event(stream, default, own);
    // SAFETY: what has just been pushed, and a live out-pointer.
    unsafe { call!(cuCtxPopCurrent_v2(&raw mut popped)) };
    mark
}

fn record_event(stream: CUstream, default: Default, context: u32) -> Option<Mark> {
    let mut event = CUevent(core::ptr::null_mut());
    let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    // SAFETY: a stream of the current context, a live out-pointer, and the event that was written there.
    unsafe {
        if call!(cuEventCreate(&raw mut event, flags)) != CUresult::CUDA_SUCCESS {
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
    Some(Mark {
        event: event.0.expose_provenance(),
        context,
    })
}

impl Deferred {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Table::new(),
            next: Numbers::new(),
            events: Lock::new(Going {
                contexts: [0; TOLD_APART],
                others: 0,
            }),
        }
    }

    /// Gives back what streams have got to. `true` if there was any.
    pub(super) fn settle(&self, process: &Process) -> bool {
        if !any() {
            return false;
        }
        let mut room = false;
        self.each(|going, number, waiting| {
            let mut marks = waiting.marks.into_iter();
            if marks.any(|mark| going.concerns(mark))
                || !relaxed(|| waiting.marks.into_iter().all(is_over))
            {
                return;
            }
            if self.waiting.remove(number).is_some() {
                room = true;
                relaxed(|| waiting.marks.into_iter().for_each(destroy));
                give_back(process, waiting.record);
            }
        });
        ANY.store(false, Ordering::Relaxed);
        // Whatever has come in the meantime counts.
        self.waiting
            .for_each(|_, _| ANY.store(true, Ordering::Relaxed));
        room
    }

    /// Events of a context are not looked at for as long as the answer lives; none is when this returns. `None`: it is not known
    /// which context may go.
    pub(crate) fn pause(&self, context: Option<u32>) -> Paused<'_> {
        let mut going = self.events.lock();
        let free = going.contexts.iter().position(|place| *place == 0);
        let place = context.and(free);
        match place.and_then(|place| going.contexts.get_mut(place)) {
            Some(place) => *place = context.unwrap_or(0),
            None => going.others += 1,
        }
        drop(going);
        Paused {
            deferred: self,
            place,
        }
    }

    /// A context is gone, with its events and its memory; it has waited for its work.
    pub(crate) fn context_gone(&self, process: &Process, context: u32) {
        if !any() {
            return;
        }
        self.each(|_, number, waiting| {
            if waiting.record.owner() == Owner::Context(context) {
                if self.waiting.remove(number).is_some() {
                    give_back(process, waiting.record);
                }
                return;
            }
            self.waiting.with(number, |waiting| {
                for mark in waiting
                    .marks
                    .iter_mut()
                    .filter(|mark| mark.context == context)
                {
                    *mark = Mark::NONE;
                }
            });
        });
    }

    /// Shows all of them, one thread at a time; not under the table's lock.
    fn each(&self, mut show: impl FnMut(&Going, u64, Waiting)) {
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
                    show(&events, number, waiting);
                }
            }
        }
    }
}

fn is_over(mark: Mark) -> bool {
    // SAFETY: an event of `mark` whose context has not gone.
    mark.event == 0
        || unsafe { call!(cuEventQuery(handle(mark.event))) } != CUresult::CUDA_ERROR_NOT_READY
}

fn destroy(mark: Mark) {
    if mark.event != 0 {
        // SAFETY: an event of `mark` that nobody else knows.
        unsafe { call!(cuEventDestroy_v2(handle(mark.event))) };
    }
}

fn handle(event: usize) -> CUevent {
    CUevent(core::ptr::with_exposed_provenance_mut(event))
}
