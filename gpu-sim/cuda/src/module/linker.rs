//! The JIT linker: inputs are read one by one, and the output is one image with all they hold.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Mutex;

use cuda_headers::driver::{CUjit_option, CUjitInputType as Input, CUlinkState, CUresult};

use crate::entry::{entry, out, out_optional};
use crate::handles::{Kind, Table};
use crate::module::entries::file;
use crate::module::image::{self, Image, ImageError, Target};
use crate::module::jit::{self, Options};
use crate::module::{self, lock, writer};

struct Linker {
    target: Target,
    options: Options,
    image: Mutex<Image>,
    /// What `cuLinkComplete` gave out; lives as long as the linker.
    output: Mutex<Option<Box<[u8]>>>,
}

// SAFETY: the options point to arrays that the application keeps valid until the linker is
// destroyed, as documented, whichever thread calls.
unsafe impl Send for Linker {}
// SAFETY: as above; everything else is behind mutexes.
unsafe impl Sync for Linker {}

static LINKERS: Table<Linker> = Table::new(Kind::Linker);

fn create(options: Options) -> Result<CUlinkState, CUresult> {
    let (_, target) = module::current_target()?;
    let linker = Linker {
        target,
        options,
        image: Mutex::default(),
        output: Mutex::default(),
    };
    Ok(CUlinkState(std::ptr::without_provenance_mut(
        LINKERS.insert(linker),
    )))
}

fn add(state: CUlinkState, kind: Input, bytes: &[u8]) -> Result<(), CUresult> {
    let linker = LINKERS
        .get(state.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    match kind {
        Input::CU_JIT_INPUT_CUBIN | Input::CU_JIT_INPUT_PTX | Input::CU_JIT_INPUT_FATBINARY => {}
        // Host objects and archives hold relocatable code only: no kernel to be found by name.
        Input::CU_JIT_INPUT_OBJECT | Input::CU_JIT_INPUT_LIBRARY => return Ok(()),
        Input::CU_JIT_INPUT_NVVM => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    let part =
        image::parse(bytes, linker.target).map_err(|error| jit::refuse(&error, linker.options))?;
    let mut image = lock(&linker.image);
    let twice = part
        .functions
        .iter()
        .find(|new| image.functions.iter().any(|f| f.name == new.name));
    if let Some(twice) = twice {
        let error = ImageError::InvalidPtx(format!("{} is defined twice", twice.name));
        jit::refuse(&error, linker.options);
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    image.functions.extend(part.functions);
    image.globals.extend(part.globals);
    Ok(())
}

unsafe fn add_data(
    state: CUlinkState,
    kind: Input,
    data: *mut c_void,
    size: usize,
) -> Result<(), CUresult> {
    if data.is_null() || size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: `size` readable bytes, says the application.
    add(state, kind, unsafe {
        std::slice::from_raw_parts(data.cast(), size)
    })
}

entry! {
    fn cuLinkCreate_v2(
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
        stateOut: *mut CUlinkState,
    ) {
        out(stateOut, create(Options::new(numOptions, options, optionValues)?)?)
    }

    fn cuLinkCreate(
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
        stateOut: *mut CUlinkState,
    ) {
        out(stateOut, create(Options::new(numOptions, options, optionValues)?)?)
    }

    fn cuLinkAddData_v2(
        state: CUlinkState,
        type_: Input,
        data: *mut c_void,
        size: usize,
        name: *const c_char,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ) {
        let _ = (name, numOptions, options, optionValues);
        add_data(state, type_, data, size)
    }

    fn cuLinkAddData(
        state: CUlinkState,
        type_: Input,
        data: *mut c_void,
        size: usize,
        name: *const c_char,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ) {
        let _ = (name, numOptions, options, optionValues);
        add_data(state, type_, data, size)
    }

    fn cuLinkAddFile_v2(
        state: CUlinkState,
        type_: Input,
        path: *const c_char,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ) {
        let _ = (numOptions, options, optionValues);
        add(state, type_, &file(path)?)
    }

    fn cuLinkAddFile(
        state: CUlinkState,
        type_: Input,
        path: *const c_char,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ) {
        let _ = (numOptions, options, optionValues);
        add(state, type_, &file(path)?)
    }

    /// The image belongs to the linker.
    fn cuLinkComplete(state: CUlinkState, cubinOut: *mut *mut c_void, sizeOut: *mut usize) {
        let linker =
            LINKERS.get(state.0.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        let bytes = writer::cubin(&lock(&linker.image), linker.target.sm).into_boxed_slice();
        linker.options.report(None);
        let mut output = lock(&linker.output);
        let kept = output.insert(bytes);
        out_optional(sizeOut, kept.len());
        out(cubinOut, kept.as_mut_ptr().cast())
    }

    fn cuLinkDestroy(state: CUlinkState) {
        let removed = LINKERS.remove(state.0.addr());
        removed.map(|_| ()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}
