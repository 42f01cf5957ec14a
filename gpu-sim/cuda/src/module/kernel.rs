//! Kernels of libraries: one handle for all contexts, settings per device.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex};

use cuda_headers::driver::{
    CUdevice, CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel, CUlibrary, CUresult,
};

use crate::entry::{answer, entry, out, out_optional};
use crate::handles::{Kind, Table};
use crate::module::function::Function;
use crate::module::{self, FUNCTIONS, Settings, function_handle, library, lock, module_handle};
use crate::{device, state};

struct Kernel {
    library: usize,
    /// Place in the library's image.
    index: usize,
    function: Function,
    name: CString,
    settings: Mutex<HashMap<CUdevice, Settings>>,
    /// Handles of the functions made of it, with their devices.
    functions: Mutex<Vec<(CUdevice, usize)>>,
}

static KERNELS: Table<Kernel> = Table::new(Kind::Kernel);

fn get(kernel: CUkernel) -> Result<Arc<Kernel>, CUresult> {
    KERNELS
        .get(kernel.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// The kernel at a place in a library's image.
pub(super) fn at(library: CUlibrary, index: usize) -> Result<CUkernel, CUresult> {
    let found = library::get(library)?;
    let function = found
        .image
        .functions
        .get(index)
        .ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
    let mut kernels = lock(&found.kernels);
    let number = *kernels.entry(index).or_insert_with(|| {
        KERNELS.insert(Kernel {
            library: library.0.addr(),
            index,
            function: function.clone(),
            name: CString::new(function.name.clone()).unwrap_or_default(),
            settings: Mutex::new(HashMap::new()),
            functions: Mutex::new(Vec::new()),
        })
    });
    Ok(CUkernel(std::ptr::without_provenance_mut(number)))
}

/// Forgets a kernel of a library that is unloaded.
pub(super) fn remove(handle: usize) {
    KERNELS.remove(handle);
}

/// Handle of the kernel's function in the current context.
pub(super) fn in_current_context(handle: usize) -> Result<usize, CUresult> {
    let kernel = KERNELS
        .get(handle)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    let library = library::numbered(kernel.library).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    let context = state::current()?;
    let module = library.module_in(context)?;
    let function = module::get(module_handle(module))?.function_at(module, kernel.index)?;
    let known = (context.device, function);
    let mut functions = lock(&kernel.functions);
    if !functions.contains(&known) {
        functions.push(known);
        if let (Some(settings), Some(loaded)) = (
            lock(&kernel.settings).get(&context.device),
            FUNCTIONS.get(function),
        ) {
            *lock(&loaded.settings) = *settings;
        }
    }
    Ok(function)
}

fn set(
    kernel: &Kernel,
    attrib: CUfunction_attribute,
    value: c_int,
    dev: CUdevice,
) -> Result<(), CUresult> {
    device::get(dev)?;
    let mut settings = lock(&kernel.settings);
    let entry = settings
        .entry(dev)
        .or_insert_with(|| Settings::of(&kernel.function));
    entry.set(&kernel.function, attrib, value)?;
    let changed = *entry;
    for (_, function) in lock(&kernel.functions)
        .iter()
        .filter(|(device, _)| *device == dev)
    {
        if let Some(loaded) = FUNCTIONS.get(*function) {
            *lock(&loaded.settings) = changed;
        }
    }
    Ok(())
}

/// As for functions of modules in null mode.
fn null_handle() -> *mut std::ffi::c_void {
    std::ptr::without_provenance_mut(0x1000)
}

entry! {
    /// Loads the library into the current context, if it is not there yet.
    fn cuKernelGetFunction(pFunc: *mut CUfunction, kernel: CUkernel),
    null { answer(out(pFunc.cast(), null_handle())) } {
        out(pFunc, function_handle(in_current_context(kernel.0.addr())?))
    }

    fn cuKernelGetLibrary(pLib: *mut CUlibrary, kernel: CUkernel) {
        out(pLib, CUlibrary(std::ptr::without_provenance_mut(get(kernel)?.library)))
    }

    fn cuKernelGetAttribute(
        pi: *mut c_int,
        attrib: CUfunction_attribute,
        kernel: CUkernel,
        dev: CUdevice,
    ) {
        let kernel = get(kernel)?;
        device::get(dev)?;
        let settings = lock(&kernel.settings).get(&dev).copied();
        let settings = settings.unwrap_or_else(|| Settings::of(&kernel.function));
        out(pi, settings.value(&kernel.function, attrib)?)
    }

    /// Holds for the functions of this kernel in all contexts of the device.
    fn cuKernelSetAttribute(
        attrib: CUfunction_attribute,
        val: c_int,
        kernel: CUkernel,
        dev: CUdevice,
    ) {
        set(&*get(kernel)?, attrib, val, dev)
    }

    /// A preference; nothing here depends on it.
    fn cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) {
        get(kernel)?;
        device::get(dev)?;
        if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(())
    }

    fn cuKernelGetName(name: *mut *const c_char, hfunc: CUkernel) {
        out(name, get(hfunc)?.name.as_ptr())
    }

    fn cuKernelGetParamInfo(
        kernel: CUkernel,
        paramIndex: usize,
        paramOffset: *mut usize,
        paramSize: *mut usize,
    ) {
        let kernel = get(kernel)?;
        let param = kernel.function.params.get(paramIndex);
        let param = param.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        out(paramOffset, param.offset)?;
        out_optional(paramSize, param.size);
        Ok(())
    }

    fn cuKernelGetParamCount(kernel: CUkernel, paramCount: *mut usize) {
        out(paramCount, get(kernel)?.function.params.len())
    }
}
