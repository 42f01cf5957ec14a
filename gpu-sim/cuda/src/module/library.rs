//! Libraries: images that belong to no context, and are loaded into each at the first use there.

use std::collections::HashMap;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, Mutex};

use cuda_headers::driver::{
    CUdeviceptr, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUmodule, CUresult,
};

use crate::ctx::Context;
use crate::entry::{answer, entry, out, out_optional};
use crate::handles::{Kind, Table};
use crate::module::entries::{file, finish, read, text};
use crate::module::image::{self, Image};
use crate::module::jit::Options;
use crate::module::{self, kernel, lock, module_handle, target};
use crate::state;

/// A library.
pub(super) struct Library {
    pub(super) image: Arc<Image>,
    /// Handles of its modules, by context.
    modules: Mutex<HashMap<u64, usize>>,
    /// Handles of its kernels, by place in the image.
    pub(super) kernels: Mutex<HashMap<usize, usize>>,
}

static LIBRARIES: Table<Library> = Table::new(Kind::Library);

pub(super) fn get(library: CUlibrary) -> Result<Arc<Library>, CUresult> {
    LIBRARIES
        .get(library.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// The library with this handle, if there is one.
pub(super) fn numbered(handle: usize) -> Option<Arc<Library>> {
    LIBRARIES.get(handle)
}

impl Library {
    /// Handle of the library's module in a context.
    pub(super) fn module_in(&self, context: &Context) -> Result<usize, CUresult> {
        let mut modules = lock(&self.modules);
        if let Some(found) = modules.get(&context.id) {
            return Ok(*found);
        }
        let module = module::load(context, Arc::clone(&self.image))?;
        modules.insert(context.id, module);
        Ok(module)
    }
}

fn add(image: Arc<Image>) -> CUlibrary {
    let library = Library {
        image,
        modules: Mutex::new(HashMap::new()),
        kernels: Mutex::new(HashMap::new()),
    };
    CUlibrary(std::ptr::without_provenance_mut(LIBRARIES.insert(library)))
}

/// The modules themselves are unloaded with all others of the context.
pub(super) fn on_context_destroy(context: u64) {
    for (_, library) in LIBRARIES.all() {
        lock(&library.modules).remove(&context);
    }
}

fn unload(library: CUlibrary) -> Result<(), CUresult> {
    let gone = LIBRARIES
        .remove(library.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    for kernel in lock(&gone.kernels).values() {
        kernel::remove(*kernel);
    }
    let modules: Vec<usize> = lock(&gone.modules).values().copied().collect();
    // A module that its context took along is no error.
    for module in modules {
        let _ = module::unload(module);
    }
    Ok(())
}

unsafe fn global(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
    managed: bool,
) -> Result<(), CUresult> {
    let library = get(library)?;
    // SAFETY: the application's arguments.
    let name = unsafe { text(name) }?;
    let known = library
        .image
        .globals
        .iter()
        .any(|g| g.name == name && g.managed == managed);
    if !known {
        return Err(CUresult::CUDA_ERROR_NOT_FOUND);
    }
    let module = module_handle(library.module_in(state::current()?)?);
    let (address, size) = module::get(module)?.global_named(name)?;
    // SAFETY: NULL or valid, says the application.
    unsafe {
        out_optional(dptr, address);
        out_optional(bytes, size);
    }
    Ok(())
}

/// As for functions of modules in null mode.
fn null_handle() -> *mut c_void {
    std::ptr::without_provenance_mut(0x1000)
}

entry! {
    /// No context is needed; the image is read for the first device.
    fn cuLibraryLoadData(
        library: *mut CUlibrary,
        code: *const c_void,
        jitOptions: *mut CUjit_option,
        jitOptionsValues: *mut *mut c_void,
        numJitOptions: c_uint,
        libraryOptions: *mut CUlibraryOption,
        libraryOptionValues: *mut *mut c_void,
        numLibraryOptions: c_uint,
    ), null { answer(out(library.cast(), null_handle())) } {
        let _ = (libraryOptions, libraryOptionValues, numLibraryOptions);
        let options = Options::new(numJitOptions, jitOptions, jitOptionsValues)?;
        if library.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(library, add(read(code, target(0)?, options)?))
    }

    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary,
        fileName: *const c_char,
        jitOptions: *mut CUjit_option,
        jitOptionsValues: *mut *mut c_void,
        numJitOptions: c_uint,
        libraryOptions: *mut CUlibraryOption,
        libraryOptionValues: *mut *mut c_void,
        numLibraryOptions: c_uint,
    ), null { answer(out(library.cast(), null_handle())) } {
        let _ = (libraryOptions, libraryOptionValues, numLibraryOptions);
        let options = Options::new(numJitOptions, jitOptions, jitOptionsValues)?;
        let image = finish(image::parse(&file(fileName)?, target(0)?), options)?;
        out(library, add(image))
    }

    fn cuLibraryUnload(library: CUlibrary) {
        unload(library)
    }

    fn cuLibraryGetKernel(pKernel: *mut CUkernel, library: CUlibrary, name: *const c_char),
    null { answer(out(pKernel.cast(), null_handle())) } {
        let name = text(name)?;
        let found = get(library)?.image.functions.iter().position(|f| f.name == name);
        let index = found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        out(pKernel, kernel::at(library, index)?)
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, lib: CUlibrary) {
        let kernels = get(lib)?.image.functions.len();
        out(count, c_uint::try_from(kernels).unwrap_or(c_uint::MAX))
    }

    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, numKernels: c_uint, lib: CUlibrary) {
        let count = get(lib)?.image.functions.len();
        if kernels.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..count.min(numKernels as usize) {
            kernels.add(index).write(kernel::at(lib, index)?);
        }
        Ok(())
    }

    /// The module in the current context.
    fn cuLibraryGetModule(pMod: *mut CUmodule, library: CUlibrary) {
        out(pMod, module_handle(get(library)?.module_in(state::current()?)?))
    }

    fn cuLibraryGetGlobal(
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        global(dptr, bytes, library, name, false)
    }

    fn cuLibraryGetManaged(
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        global(dptr, bytes, library, name, true)
    }

    /// No image tells of unified functions in a way that is read here.
    fn cuLibraryGetUnifiedFunction(
        fptr: *mut *mut c_void,
        library: CUlibrary,
        symbol: *const c_char,
    ) {
        let _ = fptr;
        get(library)?;
        text(symbol)?;
        Err(CUresult::CUDA_ERROR_NOT_FOUND)
    }
}
