//! Launches of kernels: charged to the group's GPU time, delayed where there is none.

use core::ffi::{c_int, c_uint, c_void};

use cuda_headers::driver::{
    CUDA_LAUNCH_PARAMS, CUfunction, CUlaunchAttributeID, CUlaunchConfig, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::guard::{Aside, Call};
use crate::hook::hooks;
use crate::time::{self, Geometry, NULL_STREAM};

hooks! { DRIVER as fns, quick if time::limited();
    /// Charged by what launches of its shape took.
    fn cuLaunchKernel(
        f: CUfunction,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: CUstream,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult = |call| kernel(
        f,
        [gridDimX, gridDimY, gridDimZ],
        [blockDimX, blockDimY, blockDimZ],
        sharedMemBytes,
        (hStream, false),
        call,
    );

    /// As `cuLaunchKernel`.
    fn cuLaunchKernel_ptsz(
        f: CUfunction,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: CUstream,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult = |call| kernel(
        f,
        [gridDimX, gridDimY, gridDimZ],
        [blockDimX, blockDimY, blockDimZ],
        sharedMemBytes,
        (hStream, true),
        call,
    );

    /// As `cuLaunchKernel`; one that may start before the work ahead of it ends is not parted from that by a marker.
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        f: CUfunction,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult = |call| configured(config, f, false, call);

    /// As `cuLaunchKernelEx`.
    fn cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig,
        f: CUfunction,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult = |call| configured(config, f, true, call);

    /// As `cuLaunchKernel`.
    fn cuLaunchCooperativeKernel(
        f: CUfunction,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: CUstream,
        kernelParams: *mut *mut c_void,
    ) -> CUresult = |call| kernel(
        f,
        [gridDimX, gridDimY, gridDimZ],
        [blockDimX, blockDimY, blockDimZ],
        sharedMemBytes,
        (hStream, false),
        call,
    );

    /// As `cuLaunchKernel`.
    fn cuLaunchCooperativeKernel_ptsz(
        f: CUfunction,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: CUstream,
        kernelParams: *mut *mut c_void,
    ) -> CUresult = |call| kernel(
        f,
        [gridDimX, gridDimY, gridDimZ],
        [blockDimX, blockDimY, blockDimZ],
        sharedMemBytes,
        (hStream, true),
        call,
    );

    /// Each device's part is charged to that device, and all wait before the first is launched.
    fn cuLaunchCooperativeKernelMultiDevice(
        launchParamsList: *mut CUDA_LAUNCH_PARAMS,
        numDevices: c_uint,
        flags: c_uint,
    ) -> CUresult = |call| time::several(launchParamsList, numDevices, call);

    /// The legacy forms keep their block shape in the function, so its launches are one shape.
    fn cuLaunch(f: CUfunction) -> CUresult = |call| legacy(f, [1, 1], NULL_STREAM, call);

    /// As `cuLaunch`.
    fn cuLaunchGrid(
        f: CUfunction,
        grid_width: c_int,
        grid_height: c_int,
    ) -> CUresult = |call| legacy(f, [grid_width, grid_height], NULL_STREAM, call);

    /// As `cuLaunch`.
    fn cuLaunchGridAsync(
        f: CUfunction,
        grid_width: c_int,
        grid_height: c_int,
        hStream: CUstream,
    ) -> CUresult = |call| legacy(f, [grid_width, grid_height], hStream, call);
}

#[inline]
fn kernel(
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    (stream, per_thread): (CUstream, bool),
    call: &impl Call,
) -> Result<CUresult, Aside> {
    let geometry = Geometry {
        grid,
        block,
        shared,
    };
    let on = time::stream(stream, per_thread);
    time::kernel(function.0.addr(), geometry, on, || false, call)
}

#[inline]
fn configured(
    config: *const CUlaunchConfig,
    function: CUfunction,
    per_thread: bool,
    call: &impl Call,
) -> Result<CUresult, Aside> {
    // SAFETY: the driver reads it next; NULL it refuses itself.
    let config = unsafe { config.as_ref() }.ok_or(Aside::DriverDecides)?;
    let geometry = Geometry {
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared: config.sharedMemBytes,
    };
    let on = time::stream(config.hStream, per_thread);
    time::kernel(function.0.addr(), geometry, on, || is_joined(config), call)
}

/// Whether a launch may overlap with the end of the work ahead of it.
fn is_joined(config: &CUlaunchConfig) -> bool {
    let count = usize::try_from(config.numAttrs).unwrap_or(0);
    if config.attrs.is_null() || count == 0 {
        return false;
    }
    // SAFETY: the driver reads the same `numAttrs` attributes next.
    let attributes = unsafe { core::slice::from_raw_parts(config.attrs, count) };
    attributes.iter().any(|attribute| {
        attribute.id
            == CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            // SAFETY: the member that this id selects; any value of it is valid.
            && unsafe { attribute.value.programmaticStreamSerializationAllowed } != 0
    })
}

fn legacy(
    function: CUfunction,
    grid: [c_int; 2],
    stream: CUstream,
    call: &impl Call,
) -> Result<CUresult, Aside> {
    let [width, height] = grid.map(c_int::unsigned_abs);
    kernel(
        function,
        [width, height, 1],
        [0; 3],
        0,
        (stream, false),
        call,
    )
}
