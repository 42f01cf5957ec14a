//! What a driver call came to.

use core::ffi::CStr;

use crate::driver::CUresult;

#[path = "generated/result_names.rs"]
mod table;

pub use table::RESULT_NAMES;

impl CUresult {
    /// `Ok` for `CUDA_SUCCESS`, for use with `?`.
    ///
    /// # Errors
    ///
    /// Any other code, unchanged.
    pub const fn ok(self) -> Result<(), Self> {
        match self.0 {
            0 => Ok(()),
            _ => Err(self),
        }
    }

    /// The header's name for the code; `None` for one that the header does not have.
    #[must_use]
    pub fn name(self) -> Option<&'static CStr> {
        let index = RESULT_NAMES
            .binary_search_by_key(&self.0, |(code, _)| *code)
            .ok()?;
        RESULT_NAMES.get(index).map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_ok() {
        assert_eq!(CUresult::CUDA_SUCCESS.ok(), Ok(()));
        let error = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        assert_eq!(error.ok(), Err(error));
        assert_eq!(CUresult(123_456).ok(), Err(CUresult(123_456)));
    }

    #[test]
    fn codes_have_names() {
        assert_eq!(CUresult::CUDA_SUCCESS.name(), Some(c"CUDA_SUCCESS"));
        assert_eq!(CUresult(2).name(), Some(c"CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(CUresult(999).name(), Some(c"CUDA_ERROR_UNKNOWN"));
        assert_eq!(CUresult(123_456).name(), None);
    }

    #[test]
    fn codes_are_sorted_and_unique() {
        assert!(RESULT_NAMES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
