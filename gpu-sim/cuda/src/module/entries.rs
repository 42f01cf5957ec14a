//! The driver functions of modules and functions.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use cuda_headers::driver::{
    CUdeviceptr, CUdeviceptr_v1, CUfunc_cache, CUfunction, CUfunction_attribute,
    CUfunctionLoadingState, CUjit_option, CUmodule, CUmoduleLoadingMode, CUresult, CUsharedconfig,
    CUtexref,
};

use crate::entry::{answer, entry, out, out_optional};
use crate::module::image::{self, Image, Target};
use crate::module::jit::{self, Options};
use crate::module::{self, function_handle, module_handle};
use crate::{ctx, order};

/// A C string that must be there.
pub(super) unsafe fn text<'a>(name: *const c_char) -> Result<&'a str, CUresult> {
    if name.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL, so it is a C string, says the application.
    unsafe { CStr::from_ptr(name) }
        .to_str()
        .map_err(|_| CUresult::CUDA_ERROR_NOT_FOUND)
}

/// The bytes of a file.
pub(super) unsafe fn file(name: *const c_char) -> Result<Vec<u8>, CUresult> {
    if name.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: as in `text`.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes());
    std::fs::read(path).map_err(|_| CUresult::CUDA_ERROR_FILE_NOT_FOUND)
}

/// Reads an image of which only the address is known.
pub(super) unsafe fn read(
    image: *const c_void,
    target: Target,
    options: Options,
) -> Result<Arc<Image>, CUresult> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: an image, says the application.
    finish(unsafe { image::parse_at(image.cast(), target) }, options)
}

/// The image, or the code of its refusal; the caller's logs say which.
pub(super) fn finish(
    parsed: Result<Image, image::ImageError>,
    options: Options,
) -> Result<Arc<Image>, CUresult> {
    let parsed = parsed.map_err(|error| jit::refuse(&error, options))?;
    options.report(None);
    Ok(Arc::new(parsed))
}

unsafe fn load(
    target_out: *mut CUmodule,
    image: *const c_void,
    options: Options,
) -> Result<(), CUresult> {
    let (context, target) = module::current_target()?;
    if target_out.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the application's arguments.
    unsafe {
        let image = read(image, target, options)?;
        out(target_out, module_handle(module::load(context, image)?))
    }
}

fn unload(module: CUmodule) -> Result<(), CUresult> {
    let loaded = module::get(module)?;
    for context in ctx::all() {
        if context.id == loaded.context {
            order::synchronize(context)?;
        }
    }
    drop(loaded);
    module::unload(module.0.addr())
}

/// In null mode every name is found, and each handle is the same.
fn null_handle() -> *mut c_void {
    std::ptr::without_provenance_mut(0x1000)
}

entry! {
    fn cuModuleLoad(module_out: *mut CUmodule, fname: *const c_char),
    null { answer(out(module_out.cast(), null_handle())) } {
        let (context, target) = module::current_target()?;
        let image = finish(image::parse(&file(fname)?, target), Options::NONE)?;
        out(module_out, module_handle(module::load(context, image)?))
    }

    /// PTX text, a cubin, or a fat binary.
    fn cuModuleLoadData(module_out: *mut CUmodule, image: *const c_void),
    null { answer(out(module_out.cast(), null_handle())) } {
        load(module_out, image, Options::NONE)
    }

    fn cuModuleLoadDataEx(
        module_out: *mut CUmodule,
        image: *const c_void,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ), null { answer(out(module_out.cast(), null_handle())) } {
        load(module_out, image, Options::new(numOptions, options, optionValues)?)
    }

    fn cuModuleLoadFatBinary(module_out: *mut CUmodule, fatCubin: *const c_void),
    null { answer(out(module_out.cast(), null_handle())) } {
        load(module_out, fatCubin, Options::NONE)
    }

    /// Waits for the work of the module's context, as it may run the module's code.
    fn cuModuleUnload(hmod: CUmodule) {
        unload(hmod)
    }

    fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) {
        let eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|mode| mode == "EAGER");
        out(mode, if eager {
            CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING
        } else {
            CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING
        })
    }

    fn cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char),
    null { answer(out(hfunc.cast(), null_handle())) } {
        let found = module::get(hmod)?.function_named(hmod.0.addr(), text(name)?)?;
        out(hfunc, function_handle(found))
    }

    fn cuModuleGetFunctionCount(count: *mut c_uint, mod_: CUmodule) {
        let functions = module::get(mod_)?.image.functions.len();
        out(count, c_uint::try_from(functions).unwrap_or(c_uint::MAX))
    }

    fn cuModuleEnumerateFunctions(
        functions: *mut CUfunction,
        numFunctions: c_uint,
        mod_: CUmodule,
    ) {
        let module = module::get(mod_)?;
        if functions.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..module.image.functions.len().min(numFunctions as usize) {
            let found = module.function_at(mod_.0.addr(), index)?;
            functions.add(index).write(function_handle(found));
        }
        Ok(())
    }

    fn cuModuleGetGlobal_v2(
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        hmod: CUmodule,
        name: *const c_char,
    ) {
        let (address, size) = module::get(hmod)?.global_named(text(name)?)?;
        out_optional(dptr, address);
        out_optional(bytes, size);
        Ok(())
    }

    /// Addresses do not fit 32 bits.
    fn cuModuleGetGlobal(
        dptr: *mut CUdeviceptr_v1,
        bytes: *mut c_uint,
        hmod: CUmodule,
        name: *const c_char,
    ) {
        let _ = (dptr, bytes);
        module::get(hmod)?.global_named(text(name)?)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Texture references are known by name only.
    fn cuModuleGetTexRef(pTexRef: *mut CUtexref, hmod: CUmodule, name: *const c_char) {
        let _ = pTexRef;
        let (module, name) = (module::get(hmod)?, text(name)?);
        Err(if module.image.references.iter().any(|known| known == name) {
            CUresult::CUDA_ERROR_NOT_SUPPORTED
        } else {
            CUresult::CUDA_ERROR_NOT_FOUND
        })
    }

    fn cuFuncGetAttribute(pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction) {
        let loaded = module::function(hfunc)?;
        out(pi, loaded.settings().value(&loaded.function, attrib)?)
    }

    fn cuFuncSetAttribute(hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int) {
        let loaded = module::function(hfunc)?;
        loaded.change(|settings| settings.set(&loaded.function, attrib, value))
    }

    /// A preference; nothing here depends on it.
    fn cuFuncSetCacheConfig(hfunc: CUfunction, config: CUfunc_cache) {
        module::function(hfunc)?;
        if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(())
    }

    /// A preference; nothing here depends on it.
    fn cuFuncSetSharedMemConfig(hfunc: CUfunction, config: CUsharedconfig) {
        let _ = config;
        module::function(hfunc).map(|_| ())
    }

    fn cuFuncGetModule(hmod: *mut CUmodule, hfunc: CUfunction) {
        out(hmod, module_handle(module::function(hfunc)?.module))
    }

    /// The text lives as long as the function.
    fn cuFuncGetName(name: *mut *const c_char, hfunc: CUfunction) {
        out(name, module::function(hfunc)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(
        func: CUfunction,
        paramIndex: usize,
        paramOffset: *mut usize,
        paramSize: *mut usize,
    ) {
        let loaded = module::function(func)?;
        let param = loaded.function.params.get(paramIndex);
        let param = param.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        out(paramOffset, param.offset)?;
        out_optional(paramSize, param.size);
        Ok(())
    }

    fn cuFuncGetParamCount(func: CUfunction, paramCount: *mut usize) {
        out(paramCount, module::function(func)?.function.params.len())
    }

    fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) {
        module::function(function)?;
        out(state, CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }

    fn cuFuncLoad(function: CUfunction) {
        module::function(function).map(|_| ())
    }
}
