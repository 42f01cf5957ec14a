use std::ptr;

use cuda_headers::driver::{CUcontext, CUdeviceptr, CUpointer_attribute, CUresult};

use super::{BLOCK, Gpu, INVALID, MIB, OUT_OF_MEMORY, cu, ok};

fn alloc(size: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, size));
    address
}

fn refused(size: usize) -> CUresult {
    let mut address = 0;
    cu!(cuMemAlloc_v2(&raw mut address, size))
}

#[test]
fn small_allocations_share_a_block() {
    let gpu = Gpu::new();
    let first = alloc(1);
    assert_eq!(gpu.usage(0), (BLOCK, 512));
    let second = alloc(513);
    assert_eq!(gpu.usage(0), (BLOCK, 512 + 1024));
    assert_eq!(second - first, 512);
    ok!(cuMemFree_v2(first));
    ok!(cuMemFree_v2(second));
    assert_eq!(gpu.usage(0), (0, 0));
}

#[test]
fn large_allocations_have_whole_blocks() {
    let gpu = Gpu::new();
    let large = alloc(3 * MIB);
    assert_eq!(gpu.usage(0), (2 * BLOCK, 3 << 20));
    ok!(cuMemFree_v2(large));
    assert_eq!(alloc(3 * MIB), large, "the address is used again");
}

#[test]
fn a_full_device_refuses_and_has_room_again() {
    let gpu = Gpu::on(1);
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(total, 512 * MIB);
    assert!(free < total, "the context holds something");
    assert_eq!(refused(total), OUT_OF_MEMORY);
    let all = alloc(free);
    assert_eq!(refused(1), OUT_OF_MEMORY);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(free, 0);
    ok!(cuMemFree_v2(all));
    assert!(gpu.usage(1) == (0, 0) && refused(1) == CUresult::CUDA_SUCCESS);
}

#[test]
fn wrong_frees_are_refused() {
    let _gpu = Gpu::new();
    let address = alloc(4096);
    assert_eq!(cu!(cuMemFree_v2(address + 1)), INVALID);
    assert_eq!(cu!(cuMemFree_v2(0x1234)), INVALID);
    ok!(cuMemFree_v2(0));
    ok!(cuMemFree_v2(address));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID, "twice");
    assert_eq!(cu!(cuMemAlloc_v2(ptr::null_mut(), 1)), INVALID);
    assert_eq!(refused(0), INVALID);
    assert_eq!(refused(usize::MAX), OUT_OF_MEMORY);
}

#[test]
fn memory_dies_with_its_context() {
    let gpu = Gpu::new();
    let mut other = CUcontext(ptr::null_mut());
    ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
    let address = alloc(5 * MIB);
    assert!(gpu.usage(0).0 > 0);
    ok!(cuCtxDestroy_v2(other));
    ok!(cuCtxSetCurrent(gpu.context));
    assert_eq!(gpu.usage(0), (0, 0));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID);
}

#[test]
fn freeing_with_another_context_current_refunds_the_owner() {
    let gpu = Gpu::new();
    let address = alloc(MIB);
    let mut other = CUcontext(ptr::null_mut());
    ok!(cuCtxCreate_v2(&raw mut other, 0, 1));
    ok!(cuMemFree_v2(address));
    assert_eq!((gpu.usage(0), gpu.usage(1)), ((0, 0), (0, 0)));
    ok!(cuCtxDestroy_v2(other));
}

#[test]
fn pitched_memory_is_charged_by_its_pitch() {
    let gpu = Gpu::new();
    let (mut address, mut pitch) = (0, 0);
    ok!(cuMemAllocPitch_v2(
        &raw mut address,
        &raw mut pitch,
        100,
        10_000,
        4
    ));
    assert_eq!(pitch, 512);
    assert_eq!(gpu.usage(0).1, 5_120_000);
    ok!(cuMemFree_v2(address));
    for element in [0, 1, 3, 32] {
        let call = cu!(cuMemAllocPitch_v2(
            &raw mut address,
            &raw mut pitch,
            100,
            1,
            element
        ));
        assert_eq!(call, INVALID, "{element}");
    }
}

#[test]
fn managed_memory_is_reached_from_the_host() {
    let gpu = Gpu::new();
    let mut address = 0;
    ok!(cuMemAllocManaged(&raw mut address, 4096, 1));
    let word = ptr::with_exposed_provenance_mut::<u32>(usize::try_from(address).unwrap());
    // SAFETY: managed memory of 4096 bytes lies there.
    unsafe { word.write(7) };
    let mut copy = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut copy).cast(), address, 4));
    assert_eq!((copy, gpu.usage(0).1), (7, 4096));
    ok!(cuMemFree_v2(address));
    assert_eq!(cu!(cuMemAllocManaged(&raw mut address, 4096, 8)), INVALID);
}

#[test]
fn managed_memory_may_be_larger_than_the_device() {
    let gpu = Gpu::on(1);
    let mut address = 0;
    ok!(cuMemAllocManaged(&raw mut address, 2048 * MIB, 1));
    assert_eq!(gpu.usage(1), (0, 0), "it stays with the host");
    ok!(cuMemsetD8_v2(address, 1, 100));
    ok!(cuMemFree_v2(address));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID);
}

#[test]
fn pointers_tell_where_they_belong() {
    let gpu = Gpu::new();
    let address = alloc(1000);
    let (mut base, mut size) = (0, 0);
    ok!(cuMemGetAddressRange_v2(
        &raw mut base,
        &raw mut size,
        address + 999
    ));
    assert_eq!((base, size), (address, 1000));
    let outside = cu!(cuMemGetAddressRange_v2(
        &raw mut base,
        &raw mut size,
        address + 1000
    ));
    assert_eq!(outside, CUresult::CUDA_ERROR_NOT_FOUND);
    let mut context = CUcontext(ptr::null_mut());
    let of = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    ok!(cuPointerGetAttribute(
        (&raw mut context).cast(),
        of,
        address + 5
    ));
    assert_eq!(context, gpu.context);
    assert_eq!(
        cu!(cuPointerGetAttribute((&raw mut context).cast(), of, 99)),
        INVALID
    );
}

#[test]
fn host_memory_counts_on_no_device() {
    let gpu = Gpu::new();
    let mut host = ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut host, 10 * MIB, 0));
    assert_eq!(gpu.usage(0), (0, 0));
    let mut address = 0;
    ok!(cuMemHostGetDevicePointer_v2(&raw mut address, host, 0));
    ok!(cuMemsetD8_v2(address, 3, 16));
    // SAFETY: ten megabytes lie there.
    assert_eq!(unsafe { host.cast::<u8>().add(15).read() }, 3);
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID, "not device memory");
    ok!(cuMemFreeHost(host));
    assert_eq!(cu!(cuMemFreeHost(host)), INVALID);
}

#[test]
fn memory_is_registered_once() {
    let _gpu = Gpu::new();
    let mut own = vec![0_u8; 8192];
    let place = own.as_mut_ptr().cast();
    ok!(cuMemHostRegister_v2(place, own.len(), 0));
    let twice = cu!(cuMemHostRegister_v2(place, 16, 0));
    assert_eq!(twice, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok!(cuMemHostUnregister(place));
    let gone = cu!(cuMemHostUnregister(place));
    assert_eq!(gone, CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

#[test]
fn many_allocations_come_and_go() {
    let gpu = Gpu::new();
    let sizes = (1..2000_usize).map(|i| i * 37 % 3000 + 1);
    let all: Vec<CUdeviceptr> = sizes.clone().map(alloc).collect();
    let requested: usize = sizes.map(|size| size.next_multiple_of(512)).sum();
    assert_eq!(gpu.usage(0).1, requested as u64);
    for address in all.iter().step_by(2).chain(all.iter().skip(1).step_by(2)) {
        ok!(cuMemFree_v2(*address));
    }
    assert_eq!(gpu.usage(0), (0, 0));
}
