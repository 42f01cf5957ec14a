//! Attributes of kernels: those that the image fixes, and those that can be set.

use std::ffi::c_int;

use cuda_headers::driver::{CUfunction_attribute as Attribute, CUresult};

use crate::module::function::Function;

/// Shared memory that a block may have without asking, and with.
pub(crate) const SHARED: u32 = 48 << 10;
pub(crate) const SHARED_OPTIN: u32 = 227 << 10;

/// What can be set for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Most dynamic shared memory of a launch.
    pub(crate) max_dynamic_shared: u32,
    carveout: c_int,
    cluster: [c_int; 3],
    non_portable_cluster: c_int,
    cluster_policy: c_int,
}

impl Settings {
    pub(crate) fn of(function: &Function) -> Self {
        Self {
            max_dynamic_shared: SHARED.saturating_sub(function.static_shared),
            carveout: -1,
            cluster: [0; 3],
            non_portable_cluster: 0,
            cluster_policy: 0,
        }
    }

    /// The value of an attribute, as `cuFuncGetAttribute` answers it.
    pub(crate) fn value(&self, function: &Function, attr: Attribute) -> Result<c_int, CUresult> {
        let value = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
        Ok(match attr {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => value(function.max_threads),
            Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => value(function.static_shared),
            Attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
            | Attribute::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA
            | Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET
            | Attribute(16 | 17) => 0,
            Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => value(function.local),
            Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => value(function.registers),
            Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION => value(function.ptx_version),
            Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION => value(function.binary_version),
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                value(self.max_dynamic_shared)
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => self.carveout,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => self.cluster[0],
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => self.cluster[1],
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => self.cluster[2],
            Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                self.non_portable_cluster
            }
            Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                self.cluster_policy
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        })
    }

    /// Sets what can be set; anything else is an invalid value.
    pub(crate) fn set(
        &mut self,
        function: &Function,
        attr: Attribute,
        value: c_int,
    ) -> Result<(), CUresult> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        match attr {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let bytes = u32::try_from(value).map_err(|_| invalid)?;
                let total = bytes.checked_add(function.static_shared).ok_or(invalid)?;
                if total > SHARED_OPTIN {
                    return Err(invalid);
                }
                self.max_dynamic_shared = bytes;
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                if !(-1..=100).contains(&value) {
                    return Err(invalid);
                }
                self.carveout = value;
            }
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => self.cluster[0] = value,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => self.cluster[1] = value,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => self.cluster[2] = value,
            Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                self.non_portable_cluster = value;
            }
            Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                self.cluster_policy = value;
            }
            _ => return Err(invalid),
        }
        Ok(())
    }
}
