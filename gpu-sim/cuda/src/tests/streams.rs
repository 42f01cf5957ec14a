use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_headers::driver::{CUevent, CUresult, CUstream};

use super::work::*;
use super::{Gpu, INVALID, SUCCESS, cu, ok};

const NOT_READY: CUresult = CUresult::CUDA_ERROR_NOT_READY;
const INVALID_HANDLE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

/// Events resolve half a microsecond.
fn close(ms: f32, expected: f32) -> bool {
    (ms - expected).abs() <= 0.001
}

#[test]
fn a_stream_does_one_thing_after_the_other() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let start = record(stream);
    // The first kernel keeps the stream busy while the others are enqueued.
    kernels.work(stream, 200 * MS);
    let middle = record(stream);
    for _ in 0..10 {
        kernels.work(stream, MS);
    }
    let end = record(stream);
    assert_eq!(cu!(cuStreamQuery(stream)), NOT_READY);
    assert_eq!(cu!(cuEventQuery(end)), NOT_READY);
    let total = between(middle, end);
    assert!(close(total, 10.0), "{total}");
    assert!(between(start, middle) >= 200.0);
    assert_eq!(cu!(cuStreamQuery(stream)), SUCCESS);
    assert_eq!(cu!(cuEventQuery(end)), SUCCESS);
}

#[test]
fn streams_run_side_by_side_and_their_time_counts_once() {
    let gpu = Gpu::new();
    let kernels = Kernels::load();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let busy_before = crate::state::member().unwrap().busy_ns(0);
    let gate = word();
    wait_for(a, gate, 1);
    wait_for(b, gate, 1);
    let start = record(a);
    kernels.work(a, 30 * MS);
    kernels.work(b, 30 * MS);
    let ends = [record(a), record(b)];
    write(gate, 1);
    for end in ends {
        let ms = between(start, end);
        assert!(close(ms, 30.0), "{ms}");
    }
    let busy = crate::state::member().unwrap().busy_ns(0) - busy_before;
    assert!((30 * MS..31 * MS).contains(&busy), "{busy}");
    drop(gpu);
}

#[test]
fn a_wait_for_an_event_orders_two_streams() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let gate = word();
    wait_for(a, gate, 1);
    let start = record(a);
    kernels.work(a, 20 * MS);
    let done = record(a);
    ok!(cuStreamWaitEvent(b, done, 0));
    kernels.work(b, 10 * MS);
    let end = record(b);
    assert_eq!(cu!(cuStreamQuery(b)), NOT_READY);
    write(gate, 1);
    let ms = between(start, end);
    assert!(close(ms, 30.0), "{ms}");
}

#[test]
fn the_legacy_stream_is_ordered_with_blocking_ones_only() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (blocking, free) = (stream(0), stream(NON_BLOCKING));
    let gate = word();
    wait_for(blocking, gate, 1);
    kernels.work(NULL_STREAM, MS);
    kernels.work(blocking, MS);
    // Not held up by the gate.
    kernels.work(free, MS);
    ok!(cuStreamSynchronize(free));
    assert_eq!(cu!(cuStreamQuery(NULL_STREAM)), NOT_READY);
    let start = record(NULL_STREAM);
    let end = record(blocking);
    assert_eq!(cu!(cuEventQuery(start)), NOT_READY);
    write(gate, 1);
    between(start, end);
}

#[test]
fn per_thread_default_streams_belong_to_their_thread() {
    let gpu = Gpu::new();
    let kernels = Kernels::load();
    let mut context = cuda_headers::driver::CUcontext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    let address = context.0 as usize;
    let id = |stream: CUstream| {
        let mut id = 0;
        ok!(cuStreamGetId(stream, &raw mut id));
        id
    };
    let per_thread = CUstream(2 as *mut _);
    let here = id(per_thread);
    let there = std::thread::spawn(move || {
        ok!(cuCtxSetCurrent(cuda_headers::driver::CUcontext(
            address as *mut _
        )));
        let mut id = 0;
        ok!(cuStreamGetId(CUstream(2 as *mut _), &raw mut id));
        id
    });
    assert_ne!(here, there.join().unwrap());
    let mut null = 0;
    ok!(cuStreamGetId_ptsz(NULL_STREAM, &raw mut null));
    assert_eq!(here, null);
    kernels.work(per_thread, MS);
    ok!(cuStreamSynchronize_ptsz(NULL_STREAM));
    drop(gpu);
}

#[test]
fn a_spinning_kernel_is_ended_by_another_stream_or_the_host() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let flag = word();
    kernels.wait_word(a, flag, 1);
    kernels.work(a, MS);
    kernels.work(b, 20 * MS);
    kernels.store_word(b, flag, 1);
    ok!(cuStreamSynchronize(a));

    let mut host: *mut c_void = std::ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut host, 4, 0));
    // SAFETY: four bytes of page-locked memory, aligned.
    let word = unsafe { AtomicU32::from_ptr(host.cast()) };
    word.store(0, Ordering::SeqCst);
    kernels.wait_word(a, host as u64, 7);
    assert_eq!(cu!(cuStreamQuery(a)), NOT_READY);
    word.store(7, Ordering::SeqCst);
    ok!(cuStreamSynchronize(a));
}

#[test]
fn what_the_gpu_does_is_seen_without_any_call() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let mut host: *mut c_void = std::ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut host, 4, 0));
    // SAFETY: four bytes of page-locked memory, aligned.
    let word = unsafe { AtomicU32::from_ptr(host.cast()) };
    word.store(0, Ordering::SeqCst);
    kernels.work(stream, 5 * MS);
    kernels.store_word(stream, host as u64, 42);
    until("the kernel's store", || word.load(Ordering::SeqCst) == 42);
}

/// What a host function of a stream found.
#[derive(Default)]
struct Seen {
    calls: AtomicU32,
    answer: AtomicU32,
}

unsafe extern "C" fn look(seen: *mut c_void) {
    // SAFETY: the test passes the address of a `Seen` that outlives the stream's work.
    let seen = unsafe { &*seen.cast::<Seen>() };
    seen.answer
        .store(cu!(cuCtxSynchronize()).0, Ordering::SeqCst);
    seen.calls.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn host_functions_run_in_order_and_may_not_call_the_driver() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(0);
    let seen = Seen::default();
    let gate = word();
    wait_for(stream, gate, 1);
    let data = (&raw const seen).cast_mut().cast();
    ok!(cuLaunchHostFunc(stream, Some(look), data));
    kernels.work(stream, MS);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
    write(gate, 1);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(seen.calls.load(Ordering::SeqCst), 1);
    let answer = CUresult(seen.answer.load(Ordering::SeqCst));
    assert_eq!(answer, CUresult::CUDA_ERROR_NOT_PERMITTED);
}

#[test]
fn destroyed_streams_finish_and_their_handles_are_used_again() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let first = stream(NON_BLOCKING);
    let flag = word();
    kernels.work(first, 10 * MS);
    kernels.store_word(first, flag, 3);
    ok!(cuStreamDestroy_v2(first));
    assert_eq!(cu!(cuStreamDestroy_v2(first)), INVALID_HANDLE);
    assert_eq!(cu!(cuStreamSynchronize(first)), INVALID_HANDLE);
    let second = stream(NON_BLOCKING);
    assert_eq!(first, second);
    wait_for(second, flag, 3);
    ok!(cuStreamSynchronize(second));
}

#[test]
fn wrong_streams_and_events_are_refused() {
    let _gpu = Gpu::new();
    let wrong = CUevent(0x40 as *mut _);
    assert_eq!(cu!(cuEventQuery(wrong)), INVALID_HANDLE);
    assert_eq!(cu!(cuEventDestroy_v2(wrong)), INVALID_HANDLE);
    assert_eq!(cu!(cuStreamQuery(CUstream(0x40 as *mut _))), INVALID_HANDLE);
    let mut event = CUevent::NULL;
    // Interprocess events cannot be timed.
    assert_eq!(cu!(cuEventCreate(&raw mut event, 4)), INVALID);
    assert_eq!(cu!(cuEventCreate(std::ptr::null_mut(), 0)), INVALID);
    let mut stream = CUstream::NULL;
    assert_eq!(cu!(cuStreamCreate(&raw mut stream, 2)), INVALID);
    let (a, b) = (super::work::event(), super::work::event());
    let mut ms = 0.0;
    assert_eq!(cu!(cuEventElapsedTime(&raw mut ms, a, b)), INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(a)), SUCCESS);
}

#[test]
fn an_event_of_one_device_is_waited_for_on_another() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let here = stream(NON_BLOCKING);
    let mut other = cuda_headers::driver::CUcontext::NULL;
    let gate = word();
    wait_for(here, gate, 1);
    kernels.work(here, 5 * MS);
    let done = record(here);
    ok!(cuCtxCreate_v2(&raw mut other, 0, 1));
    let there_kernels = Kernels::load();
    let there = stream(NON_BLOCKING);
    ok!(cuStreamWaitEvent(there, done, 0));
    there_kernels.work(there, MS);
    assert_eq!(cu!(cuStreamQuery(there)), NOT_READY);
    ok!(cuCtxPopCurrent_v2(std::ptr::null_mut()));
    write(gate, 1);
    ok!(cuStreamSynchronize(there));
    assert_eq!(cu!(cuEventQuery(done)), SUCCESS);
    ok!(cuCtxDestroy_v2(other));
}
