//! Modules, libraries and kernels: images that programs load, and what is in them.
//!
//! An image is read for what its structure tells: kernels with their parameters and limits, and
//! variables. A name that it does not hold is not found.

mod cubin;
mod elf;
mod entries;
mod fatbin;
pub(crate) mod function;
mod image;
mod jit;
mod kernel;
mod lexer;
mod library;
mod linker;
mod lz4;
mod occupancy;
mod ptx;
mod settings;
mod writer;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{CUdevice, CUdeviceptr, CUfunction, CUmodule, CUresult};

use crate::ctx::Context;
use crate::handles::{Kind, Table};
use crate::memory::{self, BLOCK, Family, Owner, charge, refund};
use crate::{device, state};
use function::Function;
use image::{Image, Target};
pub(crate) use settings::Settings;

/// Up to this size an image's code lies in what the context holds anyway.
const SMALL_CODE: usize = 1 << 20;

/// A kernel loaded in a context: what a `CUfunction` stands for.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) function: Function,
    pub(crate) context: u64,
    pub(crate) device: CUdevice,
    /// Handle of the module.
    pub(crate) module: usize,
    name: CString,
    settings: Mutex<Settings>,
}

impl Loaded {
    /// What has been set for this kernel.
    pub(crate) fn settings(&self) -> Settings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        with: impl FnOnce(&mut Settings) -> Result<(), CUresult>,
    ) -> Result<(), CUresult> {
        with(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A module of a context.
struct Module {
    context: u64,
    device: CUdevice,
    core: usize,
    image: Arc<Image>,
    /// Handles of the functions that were asked for, by place in the image.
    functions: Mutex<HashMap<usize, usize>>,
    /// (address, size) of each of the image's variables.
    globals: Vec<(usize, usize)>,
    /// Charged for code.
    code: usize,
}

static MODULES: Table<Module> = Table::new(Kind::Module);
static FUNCTIONS: Table<Loaded> = Table::new(Kind::Function);

/// The kernel that a handle stands for: a function's, or a library kernel's, which means the
/// function in the current context.
pub(crate) fn function(handle: CUfunction) -> Result<Arc<Loaded>, CUresult> {
    let number = handle.0.addr();
    if let Some(found) = FUNCTIONS.get(number) {
        return Ok(found);
    }
    let function = kernel::in_current_context(number)?;
    FUNCTIONS
        .get(function)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// What images are read for on a device.
fn target(device: CUdevice) -> Result<Target, CUresult> {
    let (major, minor) = device::get(device)?.card.capability;
    let sm = u32::try_from(major * 10 + minor).unwrap_or(0);
    Ok(Target {
        sm,
        driver: device::driver_version(),
    })
}

/// Loads an image into a context.
fn load(context: &Context, image: Arc<Image>) -> Result<usize, CUresult> {
    let owner = Owner::of(context);
    let code = if image.code_bytes > SMALL_CODE {
        memory::rounded(image.code_bytes, BLOCK)?
    } else {
        0
    };
    charge(owner.core, code, 0)?;
    let mut globals = Vec::with_capacity(image.globals.len());
    for global in &image.globals {
        match memory::allocate(owner, global.size.max(1), Family::Global) {
            Ok(address) => {
                // SAFETY: just allocated with at least this size, and nobody else's yet.
                unsafe {
                    let target = std::ptr::with_exposed_provenance_mut::<u8>(address);
                    target.write_bytes(0, global.size);
                    target.copy_from_nonoverlapping(
                        global.init.as_ptr(),
                        global.init.len().min(global.size),
                    );
                }
                globals.push((address, global.size));
            }
            Err(error) => {
                free_all(&globals);
                refund(owner.core, code, 0);
                return Err(error);
            }
        }
    }
    Ok(MODULES.insert(Module {
        context: context.id,
        device: context.device,
        core: owner.core,
        image,
        functions: Mutex::new(HashMap::new()),
        globals,
        code,
    }))
}

fn free_all(globals: &[(usize, usize)]) {
    for (address, _) in globals {
        // Gone already if the context is.
        let _ = memory::free_global(*address);
    }
}

/// Unloads a module; its functions' handles end with it.
fn unload(handle: usize) -> Result<(), CUresult> {
    let module = MODULES
        .remove(handle)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    for function in lock(&module.functions).values() {
        FUNCTIONS.remove(*function);
    }
    free_all(&module.globals);
    refund(module.core, module.code, 0);
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Module {
    /// Handle of the function at a place in the image.
    fn function_at(&self, own: usize, index: usize) -> Result<usize, CUresult> {
        let function = self
            .image
            .functions
            .get(index)
            .ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let mut functions = lock(&self.functions);
        Ok(*functions.entry(index).or_insert_with(|| {
            FUNCTIONS.insert(Loaded {
                function: function.clone(),
                context: self.context,
                device: self.device,
                module: own,
                name: CString::new(function.name.clone()).unwrap_or_default(),
                settings: Mutex::new(Settings::of(function)),
            })
        }))
    }

    fn function_named(&self, own: usize, name: &str) -> Result<usize, CUresult> {
        let index = self.image.functions.iter().position(|f| f.name == name);
        self.function_at(own, index.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?)
    }

    fn global_named(&self, name: &str) -> Result<(CUdeviceptr, usize), CUresult> {
        let index = self.image.globals.iter().position(|g| g.name == name);
        let found = index.and_then(|index| self.globals.get(index));
        let (address, size) = found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        Ok((*address as CUdeviceptr, *size))
    }
}

fn get(module: CUmodule) -> Result<Arc<Module>, CUresult> {
    MODULES
        .get(module.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

fn function_handle(number: usize) -> CUfunction {
    CUfunction(std::ptr::without_provenance_mut(number))
}

fn module_handle(number: usize) -> CUmodule {
    CUmodule(std::ptr::without_provenance_mut(number))
}

/// Unloads the modules of a context that ends.
pub(crate) fn on_context_destroy(context: u64) {
    library::on_context_destroy(context);
    for (handle, module) in MODULES.all() {
        if module.context == context {
            // Nobody else can have unloaded it: the context is gone.
            let _ = unload(handle);
        }
    }
}

/// The current context's device's target, for images.
fn current_target() -> Result<(&'static Context, Target), CUresult> {
    let context = state::current()?;
    Ok((context, target(context.device)?))
}
