//! GPU time: the hooks' side of the [`limiter`], and the driver behind it.

pub(crate) mod clock;
mod driver;
pub(crate) mod traffic;

use cuda_headers::driver::{CUDA_LAUNCH_PARAMS, CUcontext, CUgraphExec, CUresult, CUstream};
use limiter::{Context, Engine, Rule, Seat, Terms, UNKNOWN, UNLIMITED, Work, graph_shape};
pub(crate) use limiter::{Geometry, Stream};
use quota_abi::bucket::Rate;

use self::driver::Driver;
pub(crate) use self::traffic::Block;
use crate::device::Device;
use crate::guard::{Aside, Call, outside};
use crate::inside;
use crate::process::{self, Process};

static ENGINE: Engine = Engine::new();

/// The stream of calls that name none.
pub(crate) const NULL_STREAM: CUstream = CUstream(core::ptr::null_mut());

/// A stream as the caller of a hook named it; `per_thread` for `_ptsz` and `_ptds` forms.
pub(crate) fn stream(handle: CUstream, per_thread: bool) -> Stream {
    Stream {
        handle: handle.0.expose_provenance(),
        per_thread,
    }
}

/// Takes up the limits of a process that has just been attached.
pub(crate) fn begin(process: &'static Process) {
    // In a child of fork: what is here is its parent's.
    ENGINE.reset();
    clock::begin();
    let mut changes = None;
    for device in process.devices.iter() {
        if let Some(engine) = ENGINE.device(device.number) {
            // Never freed, as the devices of the process are not.
            let terms = Box::leak(Box::new(terms_of(device)));
            changes = terms.generation();
            engine.hold_to(terms);
            engine.set_bandwidth(Driver.bandwidth(device.handle));
        }
    }
    ENGINE.watch(changes);
}

fn terms_of(device: &'static Device) -> Terms {
    let row = device.rule();
    Terms {
        bucket: device.bucket(),
        own: device.own_share().and_then(Rate::from_ppm),
        rule: device.policy.map(|policy| Rule { policy, row }),
        seat: Some(Seat {
            region: device.region,
            device: device.index,
            slot: device.slot,
            pid: process::pid(),
        }),
    }
}

/// Nanoseconds of the host's monotonic clock.
pub(crate) fn now() -> u64 {
    clock::now()
}

/// A signal handler has left a hook of this thread by `longjmp`.
pub(crate) fn hook_was_left() {
    ENGINE.hook_was_left();
}

/// Whether there may be anything to do: false in a process none of whose devices has a limit.
#[inline]
pub(crate) fn limited() -> bool {
    ENGINE.epoch() != UNLIMITED || ENGINE.has_news()
}

/// A kernel launch.
#[inline]
pub(crate) fn kernel(
    function: usize,
    geometry: Geometry,
    on: Stream,
    joined: impl FnOnce() -> bool,
    call: &impl Call,
) -> Result<CUresult, Aside> {
    let generation = ENGINE.costs.generation();
    if let Some(own) = call.at_once() {
        let shape = geometry.shape(function, generation);
        let answer = ENGINE.spend(&own.thread, shape, on, &|| call.call());
        return answer.ok_or(Aside::NotAtOnce);
    }
    ready()?;
    let work = Work::kernel(function, geometry, generation, on, joined());
    Ok(launch(&work, call))
}

/// A graph launch.
#[inline]
pub(crate) fn graph(exec: CUgraphExec, on: Stream, call: &impl Call) -> Result<CUresult, Aside> {
    let (exec, generation) = (exec.0.addr(), ENGINE.costs.generation());
    if let Some(own) = call.at_once() {
        let shape = graph_shape(exec, generation);
        let answer = ENGINE.spend(&own.thread, shape, on, &|| call.call());
        return answer.ok_or(Aside::NotAtOnce);
    }
    ready()?;
    let work = Work::graph(exec, generation, on);
    Ok(launch(&work, call))
}

/// A launch that its thread could not pay for at once.
fn launch(work: &Work, call: &impl Call) -> CUresult {
    inside::with(|own| ENGINE.refill(&Driver, &own.thread, work, &|| call.call()))
}

/// A fill, or a copy within the device, that reads and writes `traffic` bytes of its memory.
pub(crate) fn transfer(
    traffic: u64,
    on: Stream,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    ready()?;
    Ok(inside::with(|own| {
        ENGINE.transfer(&Driver, &own.thread, on, traffic, call)
    }))
}

/// One launch on several devices: each part is charged to its device, by estimate alone.
pub(crate) fn several(
    parts: *const CUDA_LAUNCH_PARAMS,
    count: core::ffi::c_uint,
    call: &impl Call,
) -> Result<CUresult, Aside> {
    if call.at_once().is_some() {
        return Err(Aside::NotAtOnce);
    }
    if parts.is_null() {
        return Err(Aside::DriverDecides);
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the driver reads the same `count` parts next.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    if let [one] = parts {
        let on = stream(one.hStream, false);
        return kernel(one.function.0.addr(), geometry(one), on, || false, call);
    }
    if ENGINE.epoch() > UNLIMITED {
        for part in parts {
            let on = stream(part.hStream, false);
            let generation = ENGINE.costs.generation();
            let work = Work::kernel(
                part.function.0.addr(),
                geometry(part),
                generation,
                on,
                false,
            );
            if let Some(device) = Driver.device_of(on) {
                ENGINE.toll(&Driver, device, &work);
            }
        }
    }
    Ok(call.call())
}

fn geometry(part: &CUDA_LAUNCH_PARAMS) -> Geometry {
    Geometry {
        grid: [part.gridDimX, part.gridDimY, part.gridDimZ],
        block: [part.blockDimX, part.blockDimY, part.blockDimZ],
        shared: part.sharedMemBytes,
    }
}

/// Makes sure that limits were looked for, and that there is one.
#[inline]
fn ready() -> Result<(), Aside> {
    match ENGINE.epoch() {
        UNLIMITED if !ENGINE.has_news() => Err(Aside::NotLimited),
        UNLIMITED => news(),
        UNKNOWN => attach(),
        _ => Ok(()),
    }
}

/// A launch in a process without a limit, whose daemon has changed something.
#[cold]
fn news() -> Result<(), Aside> {
    ENGINE.take_news();
    if ENGINE.epoch() == UNLIMITED {
        Err(Aside::NotLimited)
    } else {
        Ok(())
    }
}

/// A launch before any limit was looked for: a driver that was initialised past us.
#[cold]
fn attach() -> Result<(), Aside> {
    match process::limited() {
        Err(Aside::NotLimited) => {
            ENGINE.limits_changed();
            Err(Aside::NotLimited)
        }
        Err(other) => Err(other),
        Ok(_) => Ok(()),
    }
}

/// Closes what this thread has open on a stream, or on all.
fn pause(on: Option<Stream>) {
    inside::with(|own| ENGINE.pause(&Driver, &own.thread, on));
}

/// This thread has waited for the GPU, or knows that something has ended.
fn resume() {
    inside::with(|own| ENGINE.resume(&Driver, &own.thread));
}

/// Calls the driver, which waits for a stream (for all of them, if `None`): what is open there is closed
/// before and settled after. The legacy stream is left alone: what we record there waits for all blocking
/// streams, and the application would with it.
pub(crate) fn waiting(on: Option<Stream>, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    if ENGINE.epoch() <= UNLIMITED {
        return Err(Aside::NotLimited);
    }
    if on.is_none_or(|stream| !stream.joins_others()) {
        pause(on);
    }
    let answer = call();
    resume();
    Ok(answer)
}

/// Calls the driver, which puts something on a stream that is no work of ours, and waits for it.
pub(crate) fn interrupting(on: Stream, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    if ENGINE.epoch() <= UNLIMITED {
        return Err(Aside::NotLimited);
    }
    interrupt(on);
    let answer = outside(call);
    resume();
    Ok(answer)
}

/// Calls the driver, which puts something on a stream that is no work of ours. What is open there ends before.
pub(crate) fn ends(
    handle: CUstream,
    per_thread: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    interrupt(stream(handle, per_thread));
    Ok(call())
}

/// Closes what is open on a stream: something comes next there that is no work of ours.
pub(crate) fn interrupt(on: Stream) {
    if ENGINE.epoch() > UNLIMITED {
        pause(Some(on));
    }
}

/// As [`interrupt`], for all streams of the thread.
pub(crate) fn interrupt_all() {
    if ENGINE.epoch() > UNLIMITED {
        pause(None);
    }
}

/// The driver was asked whether something has ended, and it has: what this shows is settled. A program that waits by asking may
/// end without ever launching again.
pub(crate) fn asked(answer: CUresult) -> CUresult {
    if answer == CUresult::CUDA_SUCCESS && ENGINE.epoch() > UNLIMITED {
        resume();
    }
    answer
}

/// A capture has begun.
pub(crate) fn capture_began(answer: CUresult) -> CUresult {
    if answer == CUresult::CUDA_SUCCESS {
        ENGINE.capture(true);
    }
    answer
}

/// A capture was to be ended. With any other answer than these the driver has not ended it; and where that is
/// not so, launches go on asking whether they are captured, which costs time and does no harm.
pub(crate) fn capture_ended(answer: CUresult) -> CUresult {
    if matches!(
        answer,
        CUresult::CUDA_SUCCESS
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    ) {
        ENGINE.capture(false);
    }
    answer
}

/// The calling thread may have another context now.
#[inline]
pub(crate) fn context_changed() {
    if ENGINE.epoch() > UNLIMITED {
        let current = Driver.context();
        inside::with(|own| {
            if !own.thread.is_in(current) {
                own.thread.forget_context();
            }
        });
    }
}

/// Calls the driver, which makes a context current. What is open in the one before is closed first.
pub(crate) fn entering(
    context: CUcontext,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if ENGINE.epoch() > UNLIMITED
        && !inside::with(|own| own.thread.is_in(Some(Context(context.0.addr()))))
    {
        pause(None);
    }
    let answer = call();
    context_changed();
    Ok(answer)
}

/// A context is about to be destroyed, its events with it.
pub(crate) fn context_goes(context: CUcontext) {
    if ENGINE.epoch() > UNLIMITED {
        ENGINE.drop_context(&Driver, Some(Context(context.0.addr())), true);
    }
    context_changed();
}

/// Contexts may be about to go whose handles are not known here (a primary one that is released or reset).
pub(crate) fn contexts_may_go() {
    if ENGINE.epoch() > UNLIMITED {
        ENGINE.drop_context(&Driver, None, false);
    }
    context_changed();
}

/// A stream is about to be destroyed.
pub(crate) fn stream_goes(handle: CUstream) {
    if ENGINE.epoch() > UNLIMITED {
        ENGINE.drop_stream(&Driver, stream(handle, false));
    }
}

/// Functions are about to be unloaded: their addresses may come to stand for others.
pub(crate) fn functions_go() {
    if ENGINE.epoch() > UNLIMITED {
        ENGINE.costs.next_generation();
        ENGINE.next_epoch();
    }
}

/// An executable graph is about to be destroyed.
pub(crate) fn graph_goes(exec: CUgraphExec) {
    let generation = ENGINE.costs.generation();
    ENGINE.costs.forget(graph_shape(exec.0.addr(), generation));
}

/// An executable graph was changed: its next launch may take another time.
pub(crate) fn graph_changed(exec: CUgraphExec) {
    let generation = ENGINE.costs.generation();
    ENGINE.costs.doubt(graph_shape(exec.0.addr(), generation));
}
