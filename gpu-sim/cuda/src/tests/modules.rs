use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_headers::driver::{
    CUcontext, CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUjitInputType,
    CUkernel, CUlibrary, CUlinkState, CUmodule, CUresult, CUstream,
};

use super::{Gpu, INVALID, cu, ok};

const KERNELS: &str = concat!(include_str!("../../../kernels.ptx"), "\0");
const NOT_FOUND: CUresult = CUresult::CUDA_ERROR_NOT_FOUND;

fn load(text: &str) -> Result<CUmodule, CUresult> {
    let mut module = CUmodule(ptr::null_mut());
    match cu!(cuModuleLoadData(&raw mut module, text.as_ptr().cast())) {
        CUresult::CUDA_SUCCESS => Ok(module),
        error => Err(error),
    }
}

fn function(module: CUmodule, name: &CStr) -> Result<CUfunction, CUresult> {
    let mut function = CUfunction(ptr::null_mut());
    match cu!(cuModuleGetFunction(
        &raw mut function,
        module,
        name.as_ptr()
    )) {
        CUresult::CUDA_SUCCESS => Ok(function),
        error => Err(error),
    }
}

#[test]
fn names_are_found_or_not() {
    let _gpu = Gpu::new();
    let module = load(KERNELS).unwrap();
    let found = function(module, c"sim_work").unwrap();
    assert_eq!(
        function(module, c"sim_work").unwrap(),
        found,
        "the same handle each time"
    );
    assert_eq!(function(module, c"sim_play"), Err(NOT_FOUND));
    let (mut address, mut size) = (0, 0);
    ok!(cuModuleGetGlobal_v2(
        &raw mut address,
        &raw mut size,
        module,
        c"sim_sink".as_ptr()
    ));
    assert_eq!(size, 4);
    let none = cu!(cuModuleGetGlobal_v2(
        &raw mut address,
        &raw mut size,
        module,
        c"x".as_ptr()
    ));
    assert_eq!(none, NOT_FOUND);
    ok!(cuModuleUnload(module));
    assert_eq!(
        cu!(cuModuleUnload(module)),
        CUresult::CUDA_ERROR_INVALID_HANDLE
    );
    let mut count = 0;
    let gone = cu!(cuFuncGetAttribute(&raw mut count, Attribute(0), found));
    assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn bad_images_are_refused_and_the_log_says_why() {
    let _gpu = Gpu::new();
    assert_eq!(load("hello\0"), Err(CUresult::CUDA_ERROR_INVALID_IMAGE));
    let newer = ".version 99.0\n.target sm_50\n\0";
    assert_eq!(
        load(newer),
        Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    );
    let broken = ".version 7.0\n.target sm_50\n.entry k( {\n\0";
    let mut log = [0_u8; 200];
    let mut names = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [
        log.as_mut_ptr().cast(),
        ptr::without_provenance_mut(log.len()),
    ];
    let mut module = CUmodule(ptr::null_mut());
    let refused = cu!(cuModuleLoadDataEx(
        &raw mut module,
        broken.as_ptr().cast(),
        2,
        names.as_mut_ptr(),
        values.as_mut_ptr()
    ));
    assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_PTX);
    let said = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert!(said.contains("line 3"), "{said}");
    assert_eq!(values[1].addr(), said.len() + 1);
}

#[test]
fn modules_die_with_their_context() {
    let gpu = Gpu::new();
    let mut other = CUcontext(ptr::null_mut());
    ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
    let module = load(KERNELS).unwrap();
    ok!(cuCtxDestroy_v2(other));
    ok!(cuCtxSetCurrent(gpu.context));
    assert_eq!(
        function(module, c"sim_work"),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
}

#[test]
fn a_library_is_loaded_in_each_context_it_is_used_in() {
    let _gpu = Gpu::new();
    let mut library = CUlibrary(ptr::null_mut());
    ok!(cuLibraryLoadData(
        &raw mut library,
        KERNELS.as_ptr().cast(),
        ptr::null_mut(),
        ptr::null_mut(),
        0,
        ptr::null_mut(),
        ptr::null_mut(),
        0
    ));
    let mut kernel = CUkernel(ptr::null_mut());
    ok!(cuLibraryGetKernel(
        &raw mut kernel,
        library,
        c"sim_fill_u32".as_ptr()
    ));
    let missing = cu!(cuLibraryGetKernel(
        &raw mut kernel,
        library,
        c"none".as_ptr()
    ));
    assert_eq!(missing, NOT_FOUND);
    let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(cuKernelSetAttribute(attribute, 100_000, kernel, 0));
    let mut first = CUfunction(ptr::null_mut());
    ok!(cuKernelGetFunction(&raw mut first, kernel));
    let mut bytes = 0;
    ok!(cuFuncGetAttribute(&raw mut bytes, attribute, first));
    assert_eq!(bytes, 100_000);

    let mut other = CUcontext(ptr::null_mut());
    ok!(cuCtxCreate_v2(&raw mut other, 0, 1));
    let mut second = CUfunction(ptr::null_mut());
    ok!(cuKernelGetFunction(&raw mut second, kernel));
    assert_ne!(first, second);
    ok!(cuFuncGetAttribute(&raw mut bytes, attribute, second));
    assert_eq!(bytes, 48 << 10, "set for the other device only");
    ok!(cuCtxDestroy_v2(other));
    ok!(cuLibraryUnload(library));
    assert_eq!(
        cu!(cuLibraryUnload(library)),
        CUresult::CUDA_ERROR_INVALID_HANDLE
    );
}

#[test]
fn what_the_linker_gives_out_can_be_loaded_and_run() {
    let _gpu = Gpu::new();
    let mut linker = CUlinkState(ptr::null_mut());
    ok!(cuLinkCreate_v2(
        0,
        ptr::null_mut(),
        ptr::null_mut(),
        &raw mut linker
    ));
    let input = KERNELS.as_ptr().cast_mut().cast();
    let kind = CUjitInputType::CU_JIT_INPUT_PTX;
    let nothing = (0, ptr::null_mut(), ptr::null_mut());
    ok!(cuLinkAddData_v2(
        linker,
        kind,
        input,
        KERNELS.len(),
        c"k".as_ptr(),
        nothing.0,
        nothing.1,
        nothing.2
    ));
    let (mut image, mut size) = (ptr::null_mut(), 0);
    ok!(cuLinkComplete(linker, &raw mut image, &raw mut size));
    let mut module = CUmodule(ptr::null_mut());
    ok!(cuModuleLoadData(&raw mut module, image));
    ok!(cuLinkDestroy(linker));
    let fill = function(module, c"sim_fill_u32").unwrap();
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, 64));
    let (mut to, mut count, mut value) = (address, 16_u64, 5_u32);
    let mut arguments: [*mut c_void; 3] = [
        (&raw mut to).cast(),
        (&raw mut count).cast(),
        (&raw mut value).cast(),
    ];
    let stream = CUstream(ptr::null_mut());
    ok!(cuLaunchKernel(
        fill,
        1,
        1,
        1,
        32,
        1,
        1,
        0,
        stream,
        arguments.as_mut_ptr(),
        ptr::null_mut()
    ));
    let mut back = [0_u32; 16];
    ok!(cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), address, 64));
    assert_eq!(back, [5; 16]);
}

#[test]
fn attributes_and_parameters_are_told() {
    let _gpu = Gpu::new();
    let module = load(KERNELS).unwrap();
    let add = function(module, c"sim_add_f32").unwrap();
    let (mut offset, mut size) = (0, 0);
    ok!(cuFuncGetParamInfo(add, 3, &raw mut offset, &raw mut size));
    assert_eq!((offset, size), (24, 8));
    assert_eq!(
        cu!(cuFuncGetParamInfo(add, 4, &raw mut offset, &raw mut size)),
        INVALID
    );
    let mut name = ptr::null();
    ok!(cuFuncGetName(&raw mut name, add));
    // SAFETY: the text lives as long as the function.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"sim_add_f32");
    let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(
        cu!(cuFuncSetAttribute(add, dynamic, 1 << 20)),
        INVALID,
        "more than there is"
    );
    let mut blocks = 0;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &raw mut blocks,
        add,
        1024,
        0
    ));
    assert_eq!(blocks, 2);
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &raw mut blocks,
        add,
        32,
        48 << 10
    ));
    assert_eq!(blocks, 4);
}
