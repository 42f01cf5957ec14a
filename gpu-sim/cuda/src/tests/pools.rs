use std::ptr;

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationType, CUmemLocationType, CUmemPool_attribute as Attribute,
    CUmemPoolProps, CUmemoryPool, CUstream,
};

use super::{Gpu, INVALID, MIB, OUT_OF_MEMORY, cu, ok};

const NULL: CUstream = CUstream(ptr::null_mut());
const SEGMENT: u64 = 32 << 20;

fn built_in() -> CUmemoryPool {
    let mut pool = CUmemoryPool(ptr::null_mut());
    ok!(cuDeviceGetDefaultMemPool(&raw mut pool, 0));
    pool
}

fn create() -> CUmemoryPool {
    // SAFETY: numbers and a pointer that only Windows uses.
    let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
    props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut pool = CUmemoryPool(ptr::null_mut());
    ok!(cuMemPoolCreate(&raw mut pool, &raw const props));
    pool
}

fn alloc(size: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAllocAsync(&raw mut address, size, NULL));
    address
}

fn value(pool: CUmemoryPool, attribute: Attribute) -> u64 {
    let mut value = 0_u64;
    ok!(cuMemPoolGetAttribute(
        pool,
        attribute,
        (&raw mut value).cast()
    ));
    value
}

/// (reserved, used)
fn now(pool: CUmemoryPool) -> (u64, u64) {
    (
        value(pool, Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
        value(pool, Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
    )
}

#[test]
fn a_pool_reserves_more_than_it_hands_out_until_it_is_synchronised() {
    let gpu = Gpu::new();
    let pool = built_in();
    let address = alloc(MIB);
    assert_eq!(now(pool), (SEGMENT, 1 << 20));
    assert_eq!(gpu.usage(0).0, SEGMENT);
    ok!(cuMemFreeAsync(address, NULL));
    assert_eq!(now(pool), (SEGMENT, 0), "freed, and still reserved");
    ok!(cuStreamSynchronize(NULL));
    assert_eq!(now(pool), (0, 0));
    assert_eq!(gpu.usage(0).0, 0);
}

#[test]
fn a_threshold_keeps_memory_until_it_is_trimmed() {
    let _gpu = Gpu::new();
    let pool = built_in();
    let mut threshold = u64::MAX;
    let attribute = Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    ok!(cuMemPoolSetAttribute(
        pool,
        attribute,
        (&raw mut threshold).cast()
    ));
    let address = alloc(MIB);
    ok!(cuMemFreeAsync(address, NULL));
    ok!(cuStreamSynchronize(NULL));
    assert_eq!(now(pool), (SEGMENT, 0));
    ok!(cuMemPoolTrimTo(pool, 0));
    assert_eq!(now(pool), (0, 0));
    threshold = 0;
    ok!(cuMemPoolSetAttribute(
        pool,
        attribute,
        (&raw mut threshold).cast()
    ));
}

#[test]
fn high_marks_stay_until_they_are_set_back() {
    let _gpu = Gpu::new();
    let pool = create();
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(
        &raw mut address,
        3 * MIB,
        pool,
        NULL
    ));
    ok!(cuMemFreeAsync(address, NULL));
    ok!(cuStreamSynchronize(NULL));
    let high = Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    assert_eq!((value(pool, high), now(pool)), (3 << 20, (0, 0)));
    let mut wrong = 5_u64;
    assert_eq!(
        cu!(cuMemPoolSetAttribute(pool, high, (&raw mut wrong).cast())),
        INVALID
    );
    let mut zero = 0_u64;
    ok!(cuMemPoolSetAttribute(pool, high, (&raw mut zero).cast()));
    assert_eq!(value(pool, high), 0);
    ok!(cuMemPoolDestroy(pool));
    assert_eq!(cu!(cuMemPoolDestroy(pool)), INVALID);
}

#[test]
fn memory_outlives_a_destroyed_pool() {
    let gpu = Gpu::new();
    let pool = create();
    let mut address = 0;
    ok!(cuMemAllocFromPoolAsync(&raw mut address, MIB, pool, NULL));
    ok!(cuMemPoolDestroy(pool));
    assert_eq!(cu!(cuMemPoolTrimTo(pool, 0)), INVALID);
    ok!(cuMemsetD8_v2(address, 1, MIB));
    assert_eq!(gpu.usage(0).0, SEGMENT);
    ok!(cuMemFree_v2(address));
    assert_eq!(gpu.usage(0).0, 0);
}

#[test]
fn freed_memory_is_used_again_in_the_same_stream() {
    let _gpu = Gpu::new();
    let first = alloc(20 * MIB);
    ok!(cuMemFreeAsync(first, NULL));
    let second = alloc(20 * MIB);
    assert_eq!(first, second);
    ok!(cuMemFree_v2(second));
}

#[test]
fn linear_memory_is_freed_in_order_too() {
    let gpu = Gpu::new();
    let mut linear = 0;
    ok!(cuMemAlloc_v2(&raw mut linear, 5 * MIB));
    ok!(cuMemsetD8Async(linear, 1, 5 * MIB, NULL));
    ok!(cuMemFreeAsync(linear, NULL));
    assert_eq!(cu!(cuMemFree_v2(linear)), INVALID);
    ok!(cuStreamSynchronize(NULL));
    assert_eq!(gpu.usage(0), (0, 0));
}

#[test]
fn what_waits_to_be_freed_goes_with_its_context() {
    let gpu = Gpu::new();
    let pool = create();
    let mut primary = cuda_headers::driver::CUcontext(ptr::null_mut());
    ok!(cuDevicePrimaryCtxRetain(&raw mut primary, 0));
    ok!(cuCtxSetCurrent(primary));
    let (mut address, mut linear, mut word) = (0, 0, 0);
    ok!(cuMemAllocFromPoolAsync(&raw mut address, MIB, pool, NULL));
    ok!(cuMemAlloc_v2(&raw mut linear, 5 * MIB));
    ok!(cuMemAlloc_v2(&raw mut word, 4));
    // Never true: nothing after it is reached.
    ok!(cuStreamWaitValue32_v2(NULL, word, 1, 1));
    ok!(cuMemFreeAsync(address, NULL));
    ok!(cuMemFreeAsync(linear, NULL));
    ok!(cuDevicePrimaryCtxReset_v2(0));
    ok!(cuCtxSetCurrent(gpu.context));
    ok!(cuMemPoolDestroy(pool));
    assert_eq!(gpu.usage(0), (0, 0));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
}

#[test]
fn wrong_frees_are_refused() {
    let _gpu = Gpu::new();
    let address = alloc(MIB);
    assert_eq!(cu!(cuMemFreeAsync(address + 512, NULL)), INVALID);
    ok!(cuMemFreeAsync(address, NULL));
    assert_eq!(cu!(cuMemFreeAsync(address, NULL)), INVALID);
    assert_eq!(
        cu!(cuMemPoolDestroy(built_in())),
        INVALID,
        "the device's own"
    );
}

#[test]
fn a_pool_takes_what_is_left_of_a_full_device() {
    let gpu = Gpu::on(1);
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    let mut rest = 0;
    ok!(cuMemAlloc_v2(&raw mut rest, free - 4 * MIB));
    let mut address = 0;
    ok!(cuMemAllocAsync(&raw mut address, 3 * MIB, NULL));
    let mut none = 0;
    assert_eq!(
        cu!(cuMemAllocAsync(&raw mut none, 3 * MIB, NULL)),
        OUT_OF_MEMORY
    );
    ok!(cuMemFree_v2(address));
    ok!(cuMemFree_v2(rest));
    assert_eq!(gpu.usage(1).0, 0);
}
