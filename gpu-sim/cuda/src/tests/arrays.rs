use std::ptr;

use cuda_headers::driver::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUarray_format, CUmipmappedArray,
    CUresult,
};

use super::{Gpu, INVALID, cu, ok};

fn shape(width: usize, height: usize, depth: usize) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: CUarray_format::CU_AD_FORMAT_FLOAT,
        NumChannels: 4,
        Flags: 0,
    }
}

#[test]
fn no_zero_makes_an_array_free() {
    let gpu = Gpu::new();
    for (wanted, bytes) in [
        (shape(1000, 0, 0), 16_384),
        (shape(1000, 100, 0), 1_600_000),
        (shape(100, 100, 100), 16_000_000),
    ] {
        let mut array = CUarray(ptr::null_mut());
        ok!(cuArray3DCreate_v2(&raw mut array, &raw const wanted));
        assert_eq!(gpu.usage(0).1, bytes, "{wanted:?}");
        ok!(cuArrayDestroy(array));
        assert_eq!(gpu.usage(0), (0, 0));
    }
}

#[test]
fn arrays_keep_what_is_copied_into_them() {
    let _gpu = Gpu::new();
    let flat = CUDA_ARRAY_DESCRIPTOR {
        Width: 256,
        Height: 0,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
        NumChannels: 1,
    };
    let mut array = CUarray(ptr::null_mut());
    ok!(cuArrayCreate_v2(&raw mut array, &raw const flat));
    let (source, mut back) = ([7_u8; 256], [0_u8; 256]);
    ok!(cuMemcpyHtoA_v2(array, 0, source.as_ptr().cast(), 256));
    ok!(cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), array, 0, 256));
    assert_eq!(source, back);
    ok!(cuArrayDestroy(array));
    assert_ne!(cu!(cuArrayDestroy(array)), CUresult::CUDA_SUCCESS);
}

#[test]
fn levels_belong_to_their_array() {
    let gpu = Gpu::new();
    let mut mipmapped = CUmipmappedArray(ptr::null_mut());
    ok!(cuMipmappedArrayCreate(
        &raw mut mipmapped,
        &shape(64, 64, 0),
        3
    ));
    assert_eq!(gpu.usage(0).1, (64 * 64 + 32 * 32 + 16 * 16) * 16);
    let mut level = CUarray(ptr::null_mut());
    ok!(cuMipmappedArrayGetLevel(&raw mut level, mipmapped, 2));
    assert_eq!(
        cu!(cuMipmappedArrayGetLevel(&raw mut level, mipmapped, 3)),
        INVALID
    );
    assert_ne!(cu!(cuArrayDestroy(level)), CUresult::CUDA_SUCCESS);
    ok!(cuMipmappedArrayDestroy(mipmapped));
    assert_eq!(gpu.usage(0), (0, 0));
}

#[test]
fn arrays_die_with_their_context() {
    let gpu = Gpu::new();
    let mut other = cuda_headers::driver::CUcontext(ptr::null_mut());
    ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
    let mut array = CUarray(ptr::null_mut());
    ok!(cuArray3DCreate_v2(&raw mut array, &shape(1000, 100, 0)));
    ok!(cuCtxDestroy_v2(other));
    ok!(cuCtxSetCurrent(gpu.context));
    assert_eq!(gpu.usage(0), (0, 0));
    assert_ne!(cu!(cuArrayDestroy(array)), CUresult::CUDA_SUCCESS);
}

#[test]
fn impossible_shapes_are_refused() {
    let _gpu = Gpu::new();
    let mut array = CUarray(ptr::null_mut());
    let mut three = shape(10, 10, 0);
    three.NumChannels = 3;
    for wanted in [shape(0, 1, 1), shape(10, 0, 10), three] {
        let call = cu!(cuArray3DCreate_v2(&raw mut array, &raw const wanted));
        assert_eq!(call, INVALID, "{wanted:?}");
    }
}
