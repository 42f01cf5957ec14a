//! Launches as they were before CUDA 4: block shape and arguments are set on the function first.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUfunction, CUresult, CUstream, CUtexref};

use super::{Arguments, function_here, launch};
use crate::entry::entry;
use crate::ops::Grid;

/// Most bytes of arguments.
const MOST: usize = 4096;

/// What has been set on a function.
#[derive(Clone, Default)]
struct Prepared {
    block: [u32; 3],
    shared: u32,
    params: Vec<u8>,
}

static PREPARED: Mutex<Option<HashMap<usize, Prepared>>> = Mutex::new(None);

fn prepared() -> MutexGuard<'static, Option<HashMap<usize, Prepared>>> {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(f: CUfunction, with: impl FnOnce(&mut Prepared)) -> Result<(), CUresult> {
    function_here(f)?;
    with(
        prepared()
            .get_or_insert_default()
            .entry(f.0 as usize)
            .or_default(),
    );
    Ok(())
}

fn set_bytes(f: CUfunction, offset: c_int, bytes: &[u8]) -> Result<(), CUresult> {
    let offset = usize::try_from(offset).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let end = offset + bytes.len();
    if end > MOST {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    change(f, |prepared| {
        if prepared.params.len() < end {
            prepared.params.resize(end, 0);
        }
        prepared.params[offset..end].copy_from_slice(bytes);
    })
}

fn run(
    f: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
    per_thread: bool,
) -> Result<(), CUresult> {
    function_here(f)?;
    let prepared = prepared()
        .get_or_insert_default()
        .get(&(f.0 as usize))
        .cloned()
        .unwrap_or_default();
    let size = |value: c_int| u32::try_from(value).unwrap_or(0);
    let grid = Grid {
        grid: [size(width), size(height), 1],
        block: prepared.block,
        shared: prepared.shared,
    };
    let mut bytes = prepared.params.len();
    let mut extra: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(1),
        prepared.params.as_ptr().cast_mut().cast(),
        std::ptr::without_provenance_mut(2),
        (&raw mut bytes).cast(),
        std::ptr::null_mut(),
    ];
    let arguments = Arguments {
        params: std::ptr::null_mut(),
        extra: extra.as_mut_ptr(),
    };
    // SAFETY: the list describes `params` and ends as it must.
    unsafe { launch(f, grid, stream, per_thread, arguments) }.map(|_| ())
}

entry! {
    fn cuFuncSetBlockShape(hfunc: CUfunction, x: c_int, y: c_int, z: c_int) {
        if x <= 0 || y <= 0 || z <= 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        change(hfunc, |prepared| prepared.block = [x, y, z].map(c_int::unsigned_abs))
    }

    fn cuFuncSetSharedSize(hfunc: CUfunction, bytes: c_uint) {
        change(hfunc, |prepared| prepared.shared = bytes)
    }

    fn cuParamSetSize(hfunc: CUfunction, numbytes: c_uint) {
        let size = numbytes as usize;
        if size > MOST {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        change(hfunc, |prepared| prepared.params.resize(size, 0))
    }

    fn cuParamSeti(hfunc: CUfunction, offset: c_int, value: c_uint) {
        set_bytes(hfunc, offset, &value.to_ne_bytes())
    }

    fn cuParamSetf(hfunc: CUfunction, offset: c_int, value: f32) {
        set_bytes(hfunc, offset, &value.to_ne_bytes())
    }

    fn cuParamSetv(hfunc: CUfunction, offset: c_int, ptr: *mut c_void, numbytes: c_uint) {
        if ptr.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let bytes = std::slice::from_raw_parts(ptr.cast::<u8>(), numbytes as usize);
        set_bytes(hfunc, offset, bytes)
    }

    /// Texture references do not exist on devices of today.
    fn cuParamSetTexRef(hfunc: CUfunction, texunit: c_int, hTexRef: CUtexref) {
        let _ = (texunit, hTexRef);
        function_here(hfunc)?;
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }

    fn cuLaunch(f: CUfunction) {
        run(f, 1, 1, CUstream::NULL, false)
    }

    fn cuLaunchGrid(f: CUfunction, grid_width: c_int, grid_height: c_int) {
        run(f, grid_width, grid_height, CUstream::NULL, false)
    }

    fn cuLaunchGridAsync(
        f: CUfunction,
        grid_width: c_int,
        grid_height: c_int,
        hStream: CUstream,
    ) {
        run(f, grid_width, grid_height, hStream, false)
    }
}
