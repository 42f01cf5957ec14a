//! This process in its group.

use cuda_headers::driver::CUresult;

use crate::guard::Aside;

/// `cuInit`.
pub(crate) fn initialise(call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    Ok(call())
}
