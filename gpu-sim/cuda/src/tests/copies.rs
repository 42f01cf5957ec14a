use std::ffi::c_void;

use cuda_headers::driver::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype, CUresult};

use super::work::*;
use super::{Gpu, INVALID, SUCCESS, cu, ok};

fn alloc(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, bytes));
    address
}

fn read(address: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, bytes));
    found
}

#[test]
fn bytes_go_there_and_back() {
    let _gpu = Gpu::new();
    let (a, b) = (alloc(1000), alloc(1000));
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    ok!(cuMemcpyHtoD_v2(a, bytes.as_ptr().cast(), 1000));
    ok!(cuMemcpyDtoD_v2(b, a, 1000));
    assert_eq!(read(b, 1000), bytes);
    let mut back = vec![0; 1000];
    ok!(cuMemcpy(back.as_mut_ptr() as u64, b, 1000));
    assert_eq!(back, bytes);
}

#[test]
fn copies_keep_to_their_stream() {
    let _gpu = Gpu::new();
    let kernels = Kernels::load();
    let stream = stream(NON_BLOCKING);
    let memory = alloc(16);
    let mut source = [1_u8; 16];
    let gate = word();
    wait_for(stream, gate, 1);
    // Pageable memory is taken when the call is made.
    ok!(cuMemcpyHtoDAsync_v2(
        memory,
        source.as_ptr().cast(),
        16,
        stream
    ));
    source = [2; 16];
    kernels.fill(stream, memory, 1, 0x0505_0505);
    let mut pinned: *mut c_void = std::ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut pinned, 16, 0));
    ok!(cuMemcpyDtoHAsync_v2(pinned, memory, 16, stream));
    assert_eq!(cu!(cuStreamQuery(stream)), CUresult::CUDA_ERROR_NOT_READY);
    write(gate, 1);
    ok!(cuStreamSynchronize(stream));
    // SAFETY: 16 bytes of page-locked memory that nothing writes any more.
    let seen = unsafe { std::slice::from_raw_parts(pinned.cast::<u8>(), 16) };
    assert_eq!(seen[..4], [5; 4]);
    assert_eq!(seen[4..], [1; 12]);
    assert_eq!(source, [2; 16]);
}

#[test]
fn copies_over_the_bus_are_no_gpu_time() {
    let gpu = Gpu::new();
    let memory = alloc(64 << 20);
    let bytes = vec![7_u8; 64 << 20];
    let before = crate::state::member().unwrap().busy_ns(0);
    ok!(cuMemcpyHtoD_v2(memory, bytes.as_ptr().cast(), bytes.len()));
    assert_eq!(crate::state::member().unwrap().busy_ns(0), before);
    ok!(cuMemsetD8_v2(memory, 1, bytes.len()));
    ok!(cuMemcpyDtoD_v2(memory, memory + (32 << 20), 32 << 20));
    ok!(cuCtxSynchronize());
    assert!(crate::state::member().unwrap().busy_ns(0) > before);
    drop(gpu);
}

#[test]
fn rectangles_are_cut_out() {
    let _gpu = Gpu::new();
    let memory = alloc(64);
    ok!(cuMemsetD8_v2(memory, 0, 64));
    let source: Vec<u8> = (0..12).collect();
    // SAFETY: integers and addresses, for which zero is valid.
    let mut copy: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = source.as_ptr().cast();
    copy.srcPitch = 4;
    copy.srcXInBytes = 1;
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = 8;
    copy.dstY = 1;
    (copy.WidthInBytes, copy.Height) = (2, 3);
    ok!(cuMemcpy2D_v2(&raw const copy));
    let found = read(memory, 32);
    assert_eq!(found[8..10], [1, 2]);
    assert_eq!(found[16..18], [5, 6]);
    assert_eq!(found[24..26], [9, 10]);
    assert_eq!(found.iter().filter(|byte| **byte != 0).count(), 6);
    copy.dstPitch = 1;
    assert_eq!(cu!(cuMemcpy2D_v2(&raw const copy)), INVALID);
    copy.dstPitch = 8;
    copy.Height = 9;
    assert_eq!(
        cu!(cuMemcpy2D_v2(&raw const copy)),
        INVALID,
        "beyond the end"
    );
    copy.Height = 0;
    assert_eq!(cu!(cuMemcpy2D_v2(&raw const copy)), SUCCESS);
}

#[test]
fn fills_of_every_width() {
    let _gpu = Gpu::new();
    let memory = alloc(64);
    ok!(cuMemsetD8_v2(memory, 0, 64));
    ok!(cuMemsetD32_v2(memory, 0x0403_0201, 2));
    ok!(cuMemsetD16_v2(memory + 8, 0x0605, 1));
    ok!(cuMemsetD2D8_v2(memory + 16, 8, 9, 2, 2));
    let found = read(memory, 26);
    assert_eq!(found[..10], [1, 2, 3, 4, 1, 2, 3, 4, 5, 6]);
    assert_eq!(found[16..26], [9, 9, 0, 0, 0, 0, 0, 0, 9, 9]);
    assert_eq!(
        cu!(cuMemsetD32_v2(memory + 1, 0, 1)),
        INVALID,
        "not aligned"
    );
}

#[test]
fn memory_that_nobody_knows_is_refused() {
    let _gpu = Gpu::new();
    let memory = alloc(512);
    let bytes = [0_u8; 1024];
    let source = bytes.as_ptr().cast();
    assert_eq!(cu!(cuMemcpyHtoD_v2(0x1000, source, 4)), INVALID);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, source, 1024)), INVALID);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, std::ptr::null(), 4)), INVALID);
    assert_eq!(cu!(cuMemsetD8_v2(memory + 500, 0, 100)), INVALID);
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, source, 0)), SUCCESS);
    ok!(cuMemFree_v2(memory));
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, source, 4)), INVALID);
}
