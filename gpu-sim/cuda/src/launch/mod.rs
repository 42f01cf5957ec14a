//! Launching kernels.

mod attributes;
mod entries;
mod legacy;

use std::ffi::c_void;
use std::sync::Arc;

use cuda_headers::driver::{CUfunction, CUresult, CUstream};

use crate::engine;
use crate::module::function::{Builtin, Function};
use crate::module::{self, Loaded};
use crate::ops::{self, Grid, Kernel, Op, costs};
use crate::stream::{Stream, resolve_here};
use crate::{capture, state};

/// Limits that no compute capability since 3.0 differs in.
const BLOCK_LIMITS: [u32; 3] = [1024, 1024, 64];
const GRID_LIMITS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const THREADS_LIMIT: u64 = 1024;

/// Where a launch's arguments come from.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    /// One address per parameter.
    pub(crate) params: *mut *mut c_void,
    /// Or a buffer, described by a list.
    pub(crate) extra: *mut *mut c_void,
}

/// Checks a launch against what the device and the kernel allow.
pub(crate) fn check(loaded: &Loaded, grid: &Grid) -> Result<(), CUresult> {
    let within = |sizes: &[u32; 3], limits: &[u32; 3]| {
        sizes
            .iter()
            .zip(limits)
            .all(|(size, limit)| (1..=*limit).contains(size))
    };
    let threads: u64 = grid.block.iter().map(|size| u64::from(*size)).product();
    if !within(&grid.grid, &GRID_LIMITS)
        || !within(&grid.block, &BLOCK_LIMITS)
        || threads > THREADS_LIMIT
        || (grid.shared > 0 && grid.shared > loaded.settings().max_dynamic_shared)
    {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let function = &loaded.function;
    if function
        .required_block
        .is_some_and(|required| required != grid.block)
    {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if threads > u64::from(function.max_threads) {
        return Err(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    Ok(())
}

/// Reads the arguments of a launch into a parameter buffer.
///
/// # Safety
/// `arguments` is as the driver API asks: as many valid addresses as the function has parameters,
/// or a list that ends as documented.
pub(crate) unsafe fn read(function: &Function, arguments: Arguments) -> Result<Vec<u8>, CUresult> {
    let Arguments { params, extra } = arguments;
    if !params.is_null() && !extra.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut buffer = vec![0; function.param_bytes()];
    if function.params.is_empty() {
        return Ok(buffer);
    }
    if !extra.is_null() {
        // SAFETY: by the caller's promise.
        let (source, size) = unsafe { read_extra(extra) }?;
        if size < buffer.len() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `size` bytes, which are enough.
        unsafe { std::ptr::copy_nonoverlapping(source, buffer.as_mut_ptr(), buffer.len()) };
        return Ok(buffer);
    }
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for (index, param) in function.params.iter().enumerate() {
        // SAFETY: one address per parameter, says the caller.
        let source = unsafe { params.add(index).read() };
        if source.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let target = &mut buffer[param.offset..param.offset + param.size];
        // SAFETY: each address is that of a value of the parameter's size, says the caller.
        unsafe {
            std::ptr::copy_nonoverlapping(source.cast(), target.as_mut_ptr(), param.size);
        }
    }
    Ok(buffer)
}

/// The buffer that a list of `CU_LAUNCH_PARAM_*` entries describes.
///
/// # Safety
/// The list ends with `CU_LAUNCH_PARAM_END`, and its values are what the keys say.
unsafe fn read_extra(mut list: *mut *mut c_void) -> Result<(*const u8, usize), CUresult> {
    const END: usize = 0;
    const POINTER: usize = 1;
    const SIZE: usize = 2;
    let (mut pointer, mut size) = (std::ptr::null::<u8>(), None);
    loop {
        // SAFETY: not beyond the end of the list, by the loop's structure.
        let (key, value) = unsafe {
            let key = list.read() as usize;
            if key == END {
                break;
            }
            (key, list.add(1).read())
        };
        match key {
            POINTER => pointer = value.cast_const().cast(),
            // SAFETY: the value of this key is the address of a size.
            SIZE if !value.is_null() => size = Some(unsafe { value.cast::<usize>().read() }),
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        // SAFETY: as above.
        list = unsafe { list.add(2) };
    }
    match size {
        Some(size) if !pointer.is_null() => Ok((pointer, size)),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// The function that a handle stands for, for use in the current context.
fn function_here(handle: CUfunction) -> Result<Arc<Loaded>, CUresult> {
    let context = state::current()?;
    let loaded = module::function(handle)?;
    if loaded.context == context.id {
        Ok(loaded)
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}

/// A launch.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn launch(
    handle: CUfunction,
    grid: Grid,
    stream: CUstream,
    per_thread: bool,
    arguments: Arguments,
) -> Result<Arc<Stream>, CUresult> {
    let loaded = function_here(handle)?;
    let stream = resolve_here(stream, per_thread)?;
    // SAFETY: by the caller's promise.
    unsafe { launch_loaded(handle, loaded, grid, &stream, arguments) }?;
    Ok(stream)
}

/// # Safety
/// As for [`read`].
unsafe fn launch_loaded(
    handle: CUfunction,
    loaded: Arc<Loaded>,
    grid: Grid,
    stream: &Arc<Stream>,
    arguments: Arguments,
) -> Result<(), CUresult> {
    check(&loaded, &grid)?;
    // SAFETY: by the caller's promise.
    if let Some(duration) = unsafe { plain_duration(&loaded.function, &grid, arguments) }?
        && !capture::any()
    {
        return engine::launch(stream.key, duration);
    }
    // SAFETY: by the caller's promise.
    let params = unsafe { read(&loaded.function, arguments) }?;
    let kernel = Kernel::new(handle, loaded, stream.context, grid, params);
    ops::submit(stream, Op::Kernel(Arc::new(kernel)))
}

/// The duration of a kernel that has no effect, without reading more than that takes.
///
/// # Safety
/// As for [`read`].
unsafe fn plain_duration(
    function: &Function,
    grid: &Grid,
    arguments: Arguments,
) -> Result<Option<u64>, CUresult> {
    let Arguments { params, extra } = arguments;
    if !extra.is_null() {
        return Ok(None);
    }
    if params.is_null() && !function.params.is_empty() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    match function.builtin {
        None => Ok(Some(costs().kernel(grid.threads()))),
        Some(Builtin::Work) => {
            // SAFETY: the first of the function's parameters, by the caller's promise.
            let first = unsafe { params.read() };
            if first.is_null() {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            // SAFETY: this built-in's only parameter is a 64-bit word.
            Ok(Some(unsafe { first.cast::<u64>().read_unaligned() }))
        }
        Some(_) => Ok(None),
    }
}

/// A kernel all of whose blocks must run at the same time.
fn check_cooperative(loaded: &Loaded, grid: &Grid) -> Result<(), CUresult> {
    /// Threads and blocks that a multiprocessor holds.
    const THREADS: u64 = 2048;
    const BLOCKS: u64 = 32;
    let threads: u64 = grid.block.iter().map(|size| u64::from(*size)).product();
    let blocks: u64 = grid.grid.iter().map(|size| u64::from(*size)).product();
    let card = &crate::device::get(loaded.device)?.card;
    let processors = u64::from(card.multiprocessors);
    let resident = (THREADS / threads.max(1)).min(BLOCKS) * processors;
    if blocks > resident {
        Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
    } else {
        Ok(())
    }
}
