use std::ptr;

use cuda_headers::driver::{CUcontext, CUlimit, CUresult, CUstream};

use super::{Gpu, INVALID, SUCCESS, cu, ok};

const NO_CONTEXT: CUresult = CUresult::CUDA_ERROR_INVALID_CONTEXT;

fn current() -> CUcontext {
    let mut context = CUcontext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    context
}

fn state() -> (u32, i32) {
    let (mut flags, mut active) = (0, 0);
    ok!(cuDevicePrimaryCtxGetState(
        1,
        &raw mut flags,
        &raw mut active
    ));
    (flags, active)
}

#[test]
fn each_thread_has_a_stack_of_contexts() {
    let gpu = Gpu::new();
    assert_eq!(current(), gpu.context);
    let mut second = CUcontext::NULL;
    ok!(cuCtxCreate_v2(&raw mut second, 0, 0));
    assert_eq!(current(), second);
    ok!(cuCtxPushCurrent_v2(gpu.context));
    let mut popped = CUcontext::NULL;
    ok!(cuCtxPopCurrent_v2(&raw mut popped));
    assert_eq!((popped, current()), (gpu.context, second));
    std::thread::spawn(|| {
        assert_eq!(current(), CUcontext::NULL);
        assert_eq!(cu!(cuCtxSynchronize()), NO_CONTEXT);
        assert_eq!(cu!(cuCtxPopCurrent_v2(ptr::null_mut())), NO_CONTEXT);
    })
    .join()
    .unwrap();
    ok!(cuCtxDestroy_v2(second));
    assert_eq!(current(), gpu.context);
    assert_eq!(cu!(cuCtxDestroy_v2(second)), NO_CONTEXT);
    assert_eq!(cu!(cuCtxSetCurrent(second)), NO_CONTEXT);
}

#[test]
fn a_context_that_is_gone_says_so_where_it_is_still_current() {
    let gpu = Gpu::new();
    let mut second = CUcontext::NULL;
    ok!(cuCtxCreate_v2(&raw mut second, 0, 0));
    ok!(cuCtxPushCurrent_v2(gpu.context));
    ok!(cuCtxDestroy_v2(second));
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    let destroyed = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!(cu!(cuCtxSynchronize()), destroyed);
    // A new context gets the old one's handle, and still is another one.
    let mut third = CUcontext::NULL;
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    ok!(cuCtxCreate_v2(&raw mut third, 0, 0));
    assert_eq!(third, second);
    ok!(cuCtxDestroy_v2(third));
    assert_eq!(current(), gpu.context);
}

#[test]
fn the_primary_context_lives_while_it_is_retained() {
    let gpu = Gpu::new();
    assert_eq!(state(), (0, 0));
    let (mut first, mut second) = (CUcontext::NULL, CUcontext::NULL);
    ok!(cuDevicePrimaryCtxRetain(&raw mut first, 1));
    let held = gpu.usage_with_contexts(1);
    ok!(cuDevicePrimaryCtxRetain(&raw mut second, 1));
    assert_eq!((first, state().1), (second, 1));
    assert_eq!(gpu.usage_with_contexts(1), held);
    assert!(held > 0);
    ok!(cuDevicePrimaryCtxRelease_v2(1));
    assert_eq!(state().1, 1);
    ok!(cuCtxPushCurrent_v2(first));
    let mut memory = 0;
    ok!(cuMemAlloc_v2(&raw mut memory, 1 << 20));
    ok!(cuDevicePrimaryCtxReset_v2(1));
    // Still retained, but not there until it is retained again.
    let destroyed = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!((state().1, gpu.usage_with_contexts(1)), (0, 0));
    assert_eq!(cu!(cuCtxSynchronize()), destroyed);
    ok!(cuDevicePrimaryCtxRetain(&raw mut second, 1));
    assert_eq!((first, state().1), (second, 1));
    assert_eq!(gpu.usage_with_contexts(1), held);
    ok!(cuCtxSynchronize());
    ok!(cuDevicePrimaryCtxRelease_v2(1));
    ok!(cuDevicePrimaryCtxRelease_v2(1));
    assert_eq!((state().1, gpu.usage_with_contexts(1)), (0, 0));
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(1)), NO_CONTEXT);
    assert_eq!(cu!(cuCtxSynchronize()), destroyed);
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
}

#[test]
fn flags_and_limits_are_checked_and_kept() {
    let _gpu = Gpu::new();
    let mut context = CUcontext::NULL;
    assert_eq!(cu!(cuCtxCreate_v2(&raw mut context, 3, 0)), INVALID);
    assert_eq!(cu!(cuCtxCreate_v2(&raw mut context, 1 << 12, 0)), INVALID);
    assert_eq!(cu!(cuCtxCreate_v2(ptr::null_mut(), 0, 0)), INVALID);
    let wrong = CUresult::CUDA_ERROR_INVALID_DEVICE;
    assert_eq!(cu!(cuCtxCreate_v2(&raw mut context, 0, 99)), wrong);
    ok!(cuCtxSetFlags(4));
    let mut flags = 0;
    ok!(cuCtxGetFlags(&raw mut flags));
    assert_eq!(flags, 4);
    let mut value = 0;
    ok!(cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, 1040));
    ok!(cuCtxGetLimit(&raw mut value, CUlimit::CU_LIMIT_STACK_SIZE));
    assert_eq!(value, 1040);
    let large = cu!(cuCtxSetLimit(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, 4 << 30));
    assert_eq!(large, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let unsupported = CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT;
    let cig = CUlimit::CU_LIMIT_CIG_ENABLED;
    assert_eq!(cu!(cuCtxGetLimit(&raw mut value, cig)), unsupported);
    assert_eq!(cu!(cuCtxGetLimit(&raw mut value, CUlimit(99))), INVALID);
}

#[test]
fn what_a_context_held_goes_with_it() {
    let _gpu = Gpu::new();
    let mut context = CUcontext::NULL;
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0));
    let mut stream = CUstream::NULL;
    let mut event = cuda_headers::driver::CUevent::NULL;
    ok!(cuStreamCreate(&raw mut stream, 0));
    ok!(cuEventCreate(&raw mut event, 0));
    ok!(cuCtxDestroy_v2(context));
    let gone = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(cu!(cuStreamQuery(stream)), gone);
    assert_eq!(cu!(cuEventQuery(event)), gone);
    assert_eq!(cu!(cuCtxSynchronize()), SUCCESS);
}
