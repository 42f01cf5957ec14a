use std::ffi::c_void;
use std::ptr;

use cuda_headers::driver::{CUfunction, CUlaunchConfig, CUresult, CUstream};

use super::work::*;
use super::{Gpu, INVALID, SUCCESS, cu, ok};

#[test]
fn shapes_that_no_device_takes_are_refused() {
    let _gpu = Gpu::new();
    let work = Kernels::load().get(c"sim_work");
    let mut ns = 10_u64;
    let mut try_shape = |grid, block, shared| {
        let params = &mut [(&raw mut ns).cast()];
        launch_shape(work, grid, block, shared, NULL_STREAM, params)
    };
    assert_eq!(try_shape([1, 1, 1], [1024, 1, 1], 0), SUCCESS);
    assert_eq!(
        try_shape([i32::MAX as u32, 65535, 65535], [1, 1, 64], 48 << 10),
        SUCCESS
    );
    for (grid, block, shared) in [
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1, 0, 1], 0),
        ([1, 65536, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [32, 33, 1], 0),
        ([1, 1, 1], [1, 1, 1], 1 << 20),
    ] {
        assert_eq!(
            try_shape(grid, block, shared),
            INVALID,
            "{grid:?} {block:?} {shared}"
        );
    }
    ok!(cuCtxSynchronize());
}

#[test]
fn arguments_come_as_addresses_or_in_a_buffer() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let flag = word();
    let store = kernels.get(c"sim_store_word");
    let mut buffer = [0_u8; 12];
    buffer[..8].copy_from_slice(&flag.to_ne_bytes());
    buffer[8..].copy_from_slice(&9_u32.to_ne_bytes());
    let mut size = buffer.len();
    let mut extra: [*mut c_void; 5] = [
        ptr::without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        ptr::without_provenance_mut(2),
        (&raw mut size).cast(),
        ptr::null_mut(),
    ];
    let run = |params: *mut *mut c_void, extra: *mut *mut c_void| {
        cu!(cuLaunchKernel(
            store,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            NULL_STREAM,
            params,
            extra
        ))
    };
    assert_eq!(run(ptr::null_mut(), extra.as_mut_ptr()), SUCCESS);
    let mut seen = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut seen).cast(), flag, 4));
    assert_eq!(seen, 9);
    assert_eq!(run(ptr::null_mut(), ptr::null_mut()), INVALID);
    let mut params = [(&raw mut size).cast(); 2];
    assert_eq!(run(params.as_mut_ptr(), extra.as_mut_ptr()), INVALID);
}

#[test]
fn every_way_to_launch_uses_the_gpu() {
    let gpu = Gpu::new();
    let kernels = Kernels::load();
    let work = kernels.get(c"sim_work");
    let stream = stream(NON_BLOCKING);
    let mut ns = 3 * MS;
    let mut params: [*mut c_void; 1] = [(&raw mut ns).cast()];
    let params = params.as_mut_ptr();
    // SAFETY: integers and addresses, for which zero is valid.
    let mut config: CUlaunchConfig = unsafe { std::mem::zeroed() };
    (config.gridDimX, config.gridDimY, config.gridDimZ) = (1, 1, 1);
    (config.blockDimX, config.blockDimY, config.blockDimZ) = (1, 1, 1);
    config.hStream = stream;
    let none = ptr::null_mut();
    let before = crate::state::member().unwrap().busy_ns(0);
    ok!(cuLaunchKernel(
        work, 1, 1, 1, 1, 1, 1, 0, stream, params, none
    ));
    ok!(cuLaunchKernel_ptsz(
        work, 1, 1, 1, 1, 1, 1, 0, stream, params, none
    ));
    ok!(cuLaunchKernelEx(&raw const config, work, params, none));
    ok!(cuLaunchKernelEx_ptsz(&raw const config, work, params, none));
    ok!(cuLaunchCooperativeKernel(
        work, 1, 1, 1, 1, 1, 1, 0, stream, params
    ));
    ok!(cuLaunchCooperativeKernel_ptsz(
        work, 1, 1, 1, 1, 1, 1, 0, stream, params
    ));
    ok!(cuFuncSetBlockShape(work, 1, 1, 1));
    ok!(cuParamSetSize(work, 8));
    ok!(cuParamSetv(work, 0, (&raw mut ns).cast(), 8));
    ok!(cuLaunchGridAsync(work, 1, 1, stream));
    let graph = capture(stream, || kernels.work(stream, 3 * MS));
    let mut exec = cuda_headers::driver::CUgraphExec::NULL;
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuGraphLaunch_ptsz(exec, stream));
    ok!(cuStreamSynchronize(stream));
    let busy = crate::state::member().unwrap().busy_ns(0) - before;
    assert_eq!(busy, 9 * 3 * MS);
    drop(gpu);
}

#[test]
fn a_cooperative_launch_must_fit_all_at_once() {
    let _gpu = Gpu::new();
    let forever = Kernels::load().get(c"sim_forever");
    let none = ptr::null_mut();
    let large = cu!(cuLaunchCooperativeKernel(
        forever,
        1 << 20,
        1,
        1,
        1024,
        1,
        1,
        0,
        NULL_STREAM,
        none
    ));
    assert_eq!(large, CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

#[test]
fn memory_that_is_not_there_breaks_the_context() {
    let _gpu = Gpu::new();
    let mut context = cuda_headers::driver::CUcontext::NULL;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0));
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    kernels.fill(stream, 0x1000, 4, 1);
    let broken = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(cu!(cuStreamSynchronize(stream)), broken);
    assert_eq!(cu!(cuCtxSynchronize()), broken);
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&raw mut address, 4)), broken);
    // The other context is not concerned.
    ok!(cuCtxDestroy_v2(context));
    ok!(cuCtxSynchronize());
}

#[test]
fn handles_that_are_none_are_refused() {
    let gpu = Gpu::new();
    let wrong = CUfunction(0x1234 as *mut _);
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(launch(wrong, NULL_STREAM, &mut []), invalid);
    let forever = Kernels::load().get(c"sim_forever");
    // A function and a stream of another context than the current one.
    let mut other = cuda_headers::driver::CUcontext::NULL;
    let here = stream(NON_BLOCKING);
    ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
    assert_eq!(launch(forever, NULL_STREAM, &mut []), invalid);
    let theirs = Kernels::load().get(c"sim_forever");
    assert_eq!(launch(theirs, here, &mut []), invalid);
    ok!(cuCtxDestroy_v2(other));
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    let none = CUresult::CUDA_ERROR_INVALID_CONTEXT;
    assert_eq!(launch(forever, NULL_STREAM, &mut []), none);
    ok!(cuCtxPushCurrent_v2(gpu.context));
}

#[test]
fn a_kernel_that_never_ends_holds_up_only_its_stream() {
    let _gpu = Gpu::new();
    let mut context = cuda_headers::driver::CUcontext::NULL;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 1));
    let kernels = Kernels::load();
    let (stuck, free) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    kernels.forever(stuck);
    kernels.work(stuck, MS);
    for _ in 0..100 {
        kernels.work(free, MS / 10);
    }
    ok!(cuStreamSynchronize(free));
    assert_eq!(cu!(cuStreamQuery(stuck)), CUresult::CUDA_ERROR_NOT_READY);
    // What ends it is the end of its process, or of the primary context by a reset; who waits for
    // it then goes on.
    let handle = stuck.0 as usize;
    let waiting = std::thread::spawn(move || cu!(cuStreamSynchronize(CUstream(handle as *mut _))));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!waiting.is_finished());
    crate::engine::abandon_context(crate::state::current().unwrap().id);
    assert_eq!(waiting.join().unwrap(), SUCCESS);
    ok!(cuCtxDestroy_v2(context));
}
