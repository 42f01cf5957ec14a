//! Events: points in streams that can be waited for and timed.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{
    CUcontext, CUevent, CUevent_flags as Flag, CUevent_record_flags, CUevent_wait_flags, CUresult,
    CUstream,
};

use crate::capture::{self, Captured};
use crate::ctx::Context;
use crate::engine::{self, Mark, StreamKey};
use crate::entry::{answer, entry, out};
use crate::handles::{Kind, Table};
use crate::ops::{self, Op};
use crate::state;
use crate::stream::{Stream, resolve};

/// What null mode answers wherever an event is asked for.
const NULL_MODE_EVENT: usize = 0x3000;

/// Events resolve half a microsecond.
const RESOLUTION_NS: u64 = 500;

/// An event.
pub(crate) struct Event {
    pub(crate) handle: CUevent,
    pub(crate) flags: u32,
    pub(crate) context: &'static Context,
    recorded: Mutex<Recorded>,
}

// SAFETY: the handle is an opaque value, nothing is reached through it.
unsafe impl Send for Event {}
// SAFETY: as above; everything else is guarded or constant.
unsafe impl Sync for Event {}

/// Where an event was last recorded.
#[derive(Clone)]
pub(crate) enum Recorded {
    Never,
    At(Arc<Mark>),
    /// In a stream that was being captured.
    Captured(Captured),
}

static EVENTS: Table<Event> = Table::new(Kind::Event);

/// The event that a handle stands for.
pub(crate) fn resolve_event(handle: CUevent) -> Result<Arc<Event>, CUresult> {
    EVENTS
        .get(handle.0 as usize)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// Forgets the events of a context that ends.
pub(crate) fn on_context_destroy(context: u64) {
    for (handle, event) in EVENTS.all() {
        if event.context.id == context {
            EVENTS.remove(handle);
        }
    }
}

impl Event {
    pub(crate) fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records it at the end of a stream.
    pub(crate) fn record(&self, key: StreamKey) -> Result<(), CUresult> {
        let mark = engine::mark(key)?;
        *self.recorded() = Recorded::At(mark);
        Ok(())
    }

    /// Makes a stream wait for it.
    pub(crate) fn wait(&self, key: StreamKey) -> Result<(), CUresult> {
        let recorded = self.recorded().clone();
        match recorded {
            Recorded::At(mark) => engine::wait_for_mark(key, &mark),
            _ => Ok(()),
        }
    }

    /// The point where it was recorded, if that was not in a capture.
    fn mark(&self) -> Result<Option<Arc<Mark>>, CUresult> {
        match &*self.recorded() {
            Recorded::Never => Ok(None),
            Recorded::At(mark) => Ok(Some(Arc::clone(mark))),
            Recorded::Captured(captured) => {
                captured.invalidate();
                Err(CUresult::CUDA_ERROR_CAPTURED_EVENT)
            }
        }
    }

    fn timed(&self) -> Result<Arc<Mark>, CUresult> {
        if self.flags & Flag::CU_EVENT_DISABLE_TIMING.0 != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        self.mark()?.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}

fn create(flags: c_uint) -> Result<CUevent, CUresult> {
    let context = state::current()?;
    let all = Flag::CU_EVENT_BLOCKING_SYNC.0
        | Flag::CU_EVENT_DISABLE_TIMING.0
        | Flag::CU_EVENT_INTERPROCESS.0;
    let shared = flags & Flag::CU_EVENT_INTERPROCESS.0 != 0;
    let timed = flags & Flag::CU_EVENT_DISABLE_TIMING.0 == 0;
    if flags & !all != 0 || (shared && timed) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let (handle, _) = EVENTS.insert_with(|handle| Event {
        handle: CUevent(handle as *mut _),
        flags,
        context,
        recorded: Mutex::new(Recorded::Never),
    });
    Ok(CUevent(handle as *mut _))
}

fn destroy(handle: CUevent) -> Result<(), CUresult> {
    let removed = EVENTS.remove(handle.0 as usize);
    removed
        .map(|_| ())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

fn record(
    handle: CUevent,
    stream: CUstream,
    per_thread: bool,
    flags: c_uint,
) -> Result<(), CUresult> {
    let external = flags == CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL.0;
    if flags != 0 && !external {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let event = resolve_event(handle)?;
    let stream = resolve(stream, per_thread)?;
    if event.context.id != stream.context.id {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    if external {
        // Only a capture has a use for it.
        return if capture::is_capturing(&stream)? {
            ops::submit(&stream, Op::Record(event))
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        };
    }
    if let Some(captured) = capture::record(&stream)? {
        *event.recorded() = Recorded::Captured(captured);
        return Ok(());
    }
    event.record(stream.key)
}

fn wait(stream: &Arc<Stream>, event: &Arc<Event>, flags: c_uint) -> Result<(), CUresult> {
    let external = flags == CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL.0;
    if flags != 0 && !external {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if external {
        return if capture::is_capturing(stream)? {
            ops::submit(stream, Op::Wait(Arc::clone(event)))
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        };
    }
    let recorded = event.recorded().clone();
    if capture::wait(stream, &recorded)? {
        return Ok(());
    }
    event.wait(stream.key)
}

fn query(event: &Event) -> Result<(), CUresult> {
    let Some(mark) = event.mark()? else {
        return Ok(());
    };
    if mark.done() {
        return event.context.check_alive();
    }
    engine::drive_if_free();
    if mark.done() {
        event.context.check_alive()
    } else {
        Err(CUresult::CUDA_ERROR_NOT_READY)
    }
}

/// Milliseconds between two events, as the device would have stamped them.
fn elapsed(start: CUevent, end: CUevent) -> Result<f32, CUresult> {
    let (start, end) = (resolve_event(start)?, resolve_event(end)?);
    if start.context.id != end.context.id {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let (first, second) = (start.timed()?, end.timed()?);
    if !first.done() || !second.done() {
        engine::drive_if_free();
    }
    let stamp = |mark: &Mark| {
        let real = mark.real().ok_or(CUresult::CUDA_ERROR_NOT_READY)?;
        i64::try_from(real / RESOLUTION_NS).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
    };
    let ticks = stamp(&second)? - stamp(&first)?;
    #[expect(clippy::cast_precision_loss, reason = "the API answers in a float")]
    Ok(ticks as f32 * (RESOLUTION_NS as f32 / 1e6))
}

entry! {
    fn cuEventCreate(phEvent: *mut CUevent, Flags: c_uint),
    null { answer(out(phEvent, CUevent(NULL_MODE_EVENT as *mut _))) } {
        if phEvent.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(phEvent, create(Flags)?)
    }

    fn cuEventDestroy(hEvent: CUevent) {
        destroy(hEvent)
    }

    fn cuEventDestroy_v2(hEvent: CUevent) {
        destroy(hEvent)
    }

    fn cuEventRecord(hEvent: CUevent, hStream: CUstream) => cuEventRecord_ptsz {
        record(hEvent, hStream, PER_THREAD, 0)
    }

    fn cuEventRecordWithFlags(hEvent: CUevent, hStream: CUstream, flags: c_uint)
    => cuEventRecordWithFlags_ptsz {
        record(hEvent, hStream, PER_THREAD, flags)
    }

    fn cuStreamWaitEvent(hStream: CUstream, hEvent: CUevent, Flags: c_uint)
    => cuStreamWaitEvent_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        wait(&stream, &resolve_event(hEvent)?, Flags)
    }

    /// An event that was never recorded counts as complete.
    fn cuEventQuery(hEvent: CUevent) {
        let event = resolve_event(hEvent)?;
        capture::check_unsafe_call()?;
        query(&event)
    }

    fn cuEventSynchronize(hEvent: CUevent) {
        let event = resolve_event(hEvent)?;
        capture::check_unsafe_call()?;
        if let Some(mark) = event.mark()? {
            engine::synchronize(&mark);
        }
        crate::pool::on_synchronize();
        event.context.check_alive()
    }

    fn cuEventElapsedTime(pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent),
    null { answer(out(pMilliseconds, 0.0)) } {
        if pMilliseconds.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pMilliseconds, elapsed(hStart, hEnd)?)
    }

    fn cuEventElapsedTime_v2(pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent),
    null { answer(out(pMilliseconds, 0.0)) } {
        if pMilliseconds.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pMilliseconds, elapsed(hStart, hEnd)?)
    }

    /// The event completes when everything that the context's streams hold now has.
    fn cuCtxRecordEvent(hCtx: CUcontext, hEvent: CUevent) {
        let context = crate::ctx::from_handle(hCtx)?;
        let event = resolve_event(hEvent)?;
        if event.context.id != context.id {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        // A stream of its own that waits for all the others, and is gone when it has.
        let joined = engine::create_stream(
            context.id,
            context.core_device,
            engine::Kind::NonBlocking,
        )?;
        for stream in crate::stream::of_context(context) {
            if capture::is_capturing(&stream)? {
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            }
            let mark = engine::mark(stream.key)?;
            engine::wait_for_mark(joined, &mark)?;
        }
        event.record(joined)?;
        engine::destroy_stream(joined);
        Ok(())
    }

    /// Everything that the context's streams get from now on waits for the event.
    fn cuCtxWaitEvent(hCtx: CUcontext, hEvent: CUevent) {
        let context = crate::ctx::from_handle(hCtx)?;
        let event = resolve_event(hEvent)?;
        for stream in crate::stream::of_context(context) {
            wait(&stream, &event, 0)?;
        }
        Ok(())
    }
}
