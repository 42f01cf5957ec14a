//! The launch functions.

use std::ffi::{c_uint, c_void};

use cuda_headers::driver::{CUDA_LAUNCH_PARAMS, CUfunction, CUlaunchConfig, CUresult, CUstream};

use super::{Arguments, attributes, check_cooperative, function_here, launch};
use crate::ctx;
use crate::entry::{entry, input};
use crate::ops::Grid;
use crate::stream::{Stream, resolve};

/// # Safety
/// As for [`launch`].
unsafe fn launch_with_config(
    config: *const CUlaunchConfig,
    f: CUfunction,
    arguments: Arguments,
    per_thread: bool,
) -> Result<(), CUresult> {
    // SAFETY: NULL or valid, as the driver API asks; so are its attributes.
    let (config, asked) = unsafe {
        let config = input(config)?;
        (config, attributes::read(config)?)
    };
    let grid = attributes::grid(config);
    if asked.cooperative {
        check_cooperative(function_here(f)?.as_ref(), &grid)?;
    }
    // SAFETY: by the caller's promise.
    let stream = unsafe { launch(f, grid, config.hStream, per_thread, arguments) }?;
    for event in asked.events {
        event.record(stream.key)?;
    }
    Ok(())
}

/// A cooperative launch on each of several devices.
unsafe fn launch_on_each(
    list: *mut CUDA_LAUNCH_PARAMS,
    count: c_uint,
    flags: c_uint,
) -> Result<(), CUresult> {
    if list.is_null() || count == 0 || flags > 3 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL; the caller vouches for the count.
    let list = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let mut devices = Vec::new();
    for params in list {
        // Default streams are not accepted, and no two launches may be on one device.
        if params.hStream.0 as usize <= 2 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let stream = resolve(params.hStream, false)?;
        if devices.contains(&stream.context.device) {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        devices.push(stream.context.device);
    }
    for params in list {
        let stream = resolve(params.hStream, false)?;
        let grid = Grid {
            grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
            block: [params.blockDimX, params.blockDimY, params.blockDimZ],
            shared: params.sharedMemBytes,
        };
        let arguments = Arguments {
            params: params.kernelParams,
            extra: std::ptr::null_mut(),
        };
        // SAFETY: by the caller's promise.
        unsafe { launch_in(&stream, params.function, grid, arguments) }?;
    }
    Ok(())
}

/// A launch in a stream's own context, whichever is current.
unsafe fn launch_in(
    stream: &Stream,
    f: CUfunction,
    grid: Grid,
    arguments: Arguments,
) -> Result<(), CUresult> {
    ctx::with_current(stream.context, || {
        check_cooperative(function_here(f)?.as_ref(), &grid)?;
        // SAFETY: by the caller's promise.
        unsafe { launch(f, grid, stream.handle, false, arguments) }.map(|_| ())
    })
}

entry! {
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
    ) => cuLaunchKernel_ptsz {
        let grid = Grid {
            grid: [gridDimX, gridDimY, gridDimZ],
            block: [blockDimX, blockDimY, blockDimZ],
            shared: sharedMemBytes,
        };
        let arguments = Arguments { params: kernelParams, extra };
        launch(f, grid, hStream, PER_THREAD, arguments).map(|_| ())
    }

    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        f: CUfunction,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) => cuLaunchKernelEx_ptsz {
        launch_with_config(config, f, Arguments { params: kernelParams, extra }, PER_THREAD)
    }

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
    ) => cuLaunchCooperativeKernel_ptsz {
        let grid = Grid {
            grid: [gridDimX, gridDimY, gridDimZ],
            block: [blockDimX, blockDimY, blockDimZ],
            shared: sharedMemBytes,
        };
        check_cooperative(function_here(f)?.as_ref(), &grid)?;
        let arguments = Arguments { params: kernelParams, extra: std::ptr::null_mut() };
        launch(f, grid, hStream, PER_THREAD, arguments).map(|_| ())
    }

    fn cuLaunchCooperativeKernelMultiDevice(
        launchParamsList: *mut CUDA_LAUNCH_PARAMS,
        numDevices: c_uint,
        flags: c_uint,
    ) {
        launch_on_each(launchParamsList, numDevices, flags)
    }
}
