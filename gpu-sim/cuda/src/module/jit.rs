//! JIT options: the driver writes logs into buffers that the caller gives.

use std::ffi::{c_uint, c_void};

use cuda_headers::driver::{CUjit_option as Option_, CUresult};

use crate::module::image::ImageError;

/// Options as C passes them: two parallel arrays.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    count: usize,
    names: *const Option_,
    values: *mut *mut c_void,
}

impl Options {
    /// None at all.
    pub(crate) const NONE: Self = Self {
        count: 0,
        names: std::ptr::null(),
        values: std::ptr::null_mut(),
    };

    /// # Safety
    /// `names` and `values` are valid for `count` elements, or `count` is 0; a log buffer among the
    /// values is as large as the size beside it says.
    pub(crate) unsafe fn new(
        count: c_uint,
        names: *const Option_,
        values: *mut *mut c_void,
    ) -> Result<Self, CUresult> {
        let count = count as usize;
        if count > 0 && (names.is_null() || values.is_null()) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let options = Self {
            count,
            names,
            values,
        };
        let known = Option_::CU_JIT_NUM_OPTIONS.0;
        match (0..count).all(|i| options.name(i).0 < known) {
            true => Ok(options),
            false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn name(&self, index: usize) -> Option_ {
        // SAFETY: `new` was given `count` valid names, and `index` is below that.
        unsafe { self.names.add(index).read() }
    }

    fn slot(&self, name: Option_) -> Option<*mut *mut c_void> {
        let index = (0..self.count).find(|index| self.name(*index) == name)?;
        // SAFETY: as in `name`, for the values.
        Some(unsafe { self.values.add(index) })
    }

    /// Fills the log buffers, and says how much of them was used.
    pub(crate) fn report(&self, error: Option<&str>) {
        self.log(
            Option_::CU_JIT_ERROR_LOG_BUFFER,
            Option_::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            error.unwrap_or(""),
        );
        self.log(
            Option_::CU_JIT_INFO_LOG_BUFFER,
            Option_::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            "",
        );
        if let Some(slot) = self.slot(Option_::CU_JIT_WALL_TIME) {
            // SAFETY: the value is a place for a float, kept in the pointer's own bytes.
            unsafe { slot.cast::<f32>().write(0.0) };
        }
    }

    fn log(&self, buffer: Option_, size: Option_, text: &str) {
        let (Some(buffer), Some(size)) = (self.slot(buffer), self.slot(size)) else {
            return;
        };
        // SAFETY: both slots are valid; the size is an integer kept in the pointer's own bytes, and
        // the buffer has that many bytes.
        unsafe {
            let target = buffer.read().cast::<u8>();
            let room = size.cast::<c_uint>().read() as usize;
            if target.is_null() || room == 0 {
                return;
            }
            let kept = text.len().min(room - 1);
            target.copy_from_nonoverlapping(text.as_ptr(), kept);
            target.add(kept).write(0);
            let used = if text.is_empty() { 0 } else { kept + 1 };
            size.write(std::ptr::without_provenance_mut(used));
        }
    }
}

/// The result code of a refused image, after telling why in the caller's log.
pub(crate) fn refuse(error: &ImageError, options: Options) -> CUresult {
    let (code, text) = match error {
        ImageError::Invalid(text) => (CUresult::CUDA_ERROR_INVALID_IMAGE, text),
        ImageError::InvalidPtx(text) => (CUresult::CUDA_ERROR_INVALID_PTX, text),
        ImageError::UnsupportedPtx(text) => (CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, text),
        ImageError::NoBinary(text) => (CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, text),
    };
    options.report(Some(&format!("gpu-sim: {text}")));
    code
}
