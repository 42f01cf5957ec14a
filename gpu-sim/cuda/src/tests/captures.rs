use cuda_headers::driver::{
    CUcontext, CUevent, CUgraph, CUresult, CUstream, CUstreamCaptureMode as Mode,
    CUstreamCaptureStatus as Status,
};

use super::work::*;
use super::{Gpu, SUCCESS, cu, ok};

const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

fn begin(stream: CUstream, mode: Mode) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: CUstream) -> CUresult {
    let mut graph = CUgraph::NULL;
    let result = cu!(cuStreamEndCapture(stream, &raw mut graph));
    assert_eq!(graph.is_null(), result != SUCCESS);
    result
}

fn status(stream: CUstream) -> Status {
    let mut status = Status(99);
    ok!(cuStreamIsCapturing(stream, &raw mut status));
    status
}

/// Runs an unsafe call on a thread of its own that takes part in this mode.
fn elsewhere(gpu: &Gpu, mut mode: Mode, call: impl FnOnce() -> CUresult + Send) -> CUresult {
    let context = gpu.context.0 as usize;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            ok!(cuCtxSetCurrent(CUcontext(context as *mut _)));
            ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
            call()
        });
        thread.join().unwrap()
    })
}

fn allocate() -> CUresult {
    let mut address = 0;
    cu!(cuMemAlloc_v2(&raw mut address, 16))
}

#[test]
fn a_capture_in_global_mode_forbids_unsafe_calls_everywhere() {
    let gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    begin(stream, GLOBAL);
    assert_eq!(elsewhere(&gpu, GLOBAL, allocate), UNSUPPORTED);
    assert_eq!(status(stream), Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_eq!(end(stream), INVALIDATED);
    assert_eq!(status(stream), Status::CU_STREAM_CAPTURE_STATUS_NONE);
    assert_eq!(allocate(), SUCCESS);
}

#[test]
fn threads_that_take_no_part_are_free() {
    let gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    begin(stream, GLOBAL);
    assert_eq!(elsewhere(&gpu, THREAD_LOCAL, allocate), SUCCESS);
    assert_eq!(elsewhere(&gpu, RELAXED, allocate), SUCCESS);
    assert_eq!(status(stream), Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_eq!(end(stream), SUCCESS);
}

#[test]
fn a_thread_local_capture_forbids_them_to_its_thread() {
    let gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    begin(stream, THREAD_LOCAL);
    assert_eq!(elsewhere(&gpu, GLOBAL, allocate), SUCCESS);
    assert_eq!(allocate(), UNSUPPORTED);
    assert_eq!(end(stream), INVALIDATED);
    begin(stream, RELAXED);
    assert_eq!(allocate(), SUCCESS);
    assert_eq!(end(stream), SUCCESS);
}

#[test]
fn exchanging_the_mode_gives_the_old_one() {
    let _gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    begin(stream, GLOBAL);
    let done = std::thread::spawn(|| {
        let mut mode = RELAXED;
        ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
        assert_eq!(mode, GLOBAL);
        ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
        assert_eq!(mode, RELAXED);
    });
    done.join().unwrap();
    assert_eq!(end(stream), SUCCESS);
}

#[test]
fn queries_of_events_on_another_thread_break_a_global_capture() {
    let gpu = Gpu::new();
    let (stream, other) = (stream(NON_BLOCKING), super::work::stream(NON_BLOCKING));
    let event = record(other).0 as usize;
    let query = || cu!(cuEventQuery(CUevent(event as *mut _)));
    begin(stream, GLOBAL);
    assert_eq!(elsewhere(&gpu, GLOBAL, query), UNSUPPORTED);
    assert_eq!(end(stream), INVALIDATED);
    begin(stream, GLOBAL);
    assert_eq!(elsewhere(&gpu, RELAXED, query), SUCCESS);
    assert_eq!(end(stream), SUCCESS);
}

#[test]
fn a_captured_stream_can_be_neither_asked_nor_waited_for() {
    let _gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    begin(stream, RELAXED);
    assert_eq!(cu!(cuStreamQuery(stream)), UNSUPPORTED);
    assert_eq!(end(stream), INVALIDATED);
    begin(stream, RELAXED);
    assert_eq!(cu!(cuCtxSynchronize()), UNSUPPORTED);
    assert_eq!(end(stream), INVALIDATED);
    begin(stream, RELAXED);
    let event = record(stream);
    let captured = CUresult::CUDA_ERROR_CAPTURED_EVENT;
    assert_eq!(cu!(cuEventQuery(event)), captured);
    assert_eq!(end(stream), INVALIDATED);
}

#[test]
fn what_is_captured_is_not_run() {
    let gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let before = crate::state::member().unwrap().busy_ns(0);
    let graph = capture(stream, || kernels.work(stream, 50 * MS));
    assert_eq!(crate::state::member().unwrap().busy_ns(0), before);
    ok!(cuGraphDestroy(graph));
    drop(gpu);
}

#[test]
fn forks_must_be_joined() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let fork = || {
        begin(a, RELAXED);
        kernels.work(a, 1);
        let forked = record(a);
        ok!(cuStreamWaitEvent(b, forked, 0));
        kernels.work(b, 1);
    };
    fork();
    assert_eq!(status(b), Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_eq!(end(a), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    fork();
    assert_eq!(end(b), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(end(a), INVALIDATED);
    fork();
    let joined = record(b);
    ok!(cuStreamWaitEvent(a, joined, 0));
    assert_eq!(end(a), SUCCESS);
    assert_eq!(status(b), Status::CU_STREAM_CAPTURE_STATUS_NONE);
}

#[test]
fn dependencies_do_not_cross_the_capture() {
    let _gpu = Gpu::new();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let outside = record(b);
    begin(a, RELAXED);
    let isolation = CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    assert_eq!(cu!(cuStreamWaitEvent(a, outside, 0)), isolation);
    assert_eq!(end(a), INVALIDATED);
    begin(a, RELAXED);
    begin(b, RELAXED);
    let theirs = record(b);
    let merge = CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE;
    assert_eq!(cu!(cuStreamWaitEvent(a, theirs, 0)), merge);
    assert_eq!((end(a), end(b)), (INVALIDATED, INVALIDATED));
}

#[test]
fn the_legacy_stream_would_depend_on_blocking_captures() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (blocking, free) = (stream(0), stream(NON_BLOCKING));
    begin(free, RELAXED);
    kernels.work(NULL_STREAM, 1);
    assert_eq!(end(free), SUCCESS);
    begin(blocking, RELAXED);
    let work = kernels.get(c"sim_forever");
    let implicit = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    assert_eq!(launch(work, NULL_STREAM, &mut []), implicit);
    assert_eq!(end(blocking), INVALIDATED);
    let refused = cu!(cuStreamBeginCapture_v2(NULL_STREAM, RELAXED));
    assert_eq!(refused, UNSUPPORTED);
    assert_eq!(end(blocking), CUresult::CUDA_ERROR_ILLEGAL_STATE);
}

#[test]
fn only_the_thread_that_began_may_end_unless_relaxed() {
    let gpu = Gpu::new();
    let stream = stream(NON_BLOCKING);
    let handle = stream.0 as usize;
    let end_there = move || end(CUstream(handle as *mut _));
    begin(stream, GLOBAL);
    let wrong = CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    assert_eq!(elsewhere(&gpu, GLOBAL, end_there), wrong);
    assert_eq!(end(stream), SUCCESS);
    begin(stream, RELAXED);
    assert_eq!(elsewhere(&gpu, GLOBAL, end_there), SUCCESS);
}
