//! Names and descriptions of result codes.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::OnceLock;

use cuda_headers::driver::CUresult;

use crate::entry::{early_entry, out};

macro_rules! results {
    ($($name:ident),* $(,)?) => {
        /// Every code of the header with its name.
        const NAMES: &[(CUresult, &str)] = &[$((CUresult::$name, stringify!($name))),*];
    };
}

results! {
    CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
    CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_PROFILER_DISABLED,
    CUDA_ERROR_PROFILER_NOT_INITIALIZED, CUDA_ERROR_PROFILER_ALREADY_STARTED,
    CUDA_ERROR_PROFILER_ALREADY_STOPPED, CUDA_ERROR_STUB_LIBRARY,
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUDA_ERROR_MULTICAST_RESOURCE_FULL, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE,
    CUDA_ERROR_DEVICE_NOT_LICENSED, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_CONTEXT,
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT, CUDA_ERROR_MAP_FAILED, CUDA_ERROR_UNMAP_FAILED,
    CUDA_ERROR_ARRAY_IS_MAPPED, CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_NO_BINARY_FOR_GPU,
    CUDA_ERROR_ALREADY_ACQUIRED, CUDA_ERROR_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED_AS_ARRAY,
    CUDA_ERROR_NOT_MAPPED_AS_POINTER, CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_UNSUPPORTED_LIMIT, CUDA_ERROR_CONTEXT_ALREADY_IN_USE,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_INVALID_PTX,
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    CUDA_ERROR_JIT_COMPILATION_DISABLED, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, CUDA_ERROR_CONTAINED,
    CUDA_ERROR_INSUFFICIENT_LOADER_VERSION, CUDA_ERROR_INVALID_SOURCE,
    CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_OPERATING_SYSTEM,
    CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_LOSSY_QUERY,
    CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT, CUDA_ERROR_TOO_MANY_PEERS,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
    CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
    CUDA_ERROR_TENSOR_MEMORY_LEAK, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED,
    CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_MPS_CONNECTION_FAILED,
    CUDA_ERROR_MPS_RPC_FAILURE, CUDA_ERROR_MPS_SERVER_NOT_READY,
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
    CUDA_ERROR_MPS_CLIENT_TERMINATED, CUDA_ERROR_CDP_NOT_SUPPORTED,
    CUDA_ERROR_CDP_VERSION_MISMATCH, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_MERGE,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_TIMEOUT,
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_EXTERNAL_DEVICE,
    CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_FUNCTION_NOT_LOADED,
    CUDA_ERROR_INVALID_RESOURCE_TYPE, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
    CUDA_ERROR_KEY_ROTATION, CUDA_ERROR_STREAM_DETACHED, CUDA_ERROR_GRAPH_RECAPTURE_FAILURE,
    CUDA_ERROR_FABRIC_NOT_READY, CUDA_ERROR_UNKNOWN,
}

/// What drivers say of the codes that programs meet, and tests look for. Other codes are described
/// by their names.
fn known(code: CUresult) -> Option<&'static str> {
    Some(match code {
        CUresult::CUDA_SUCCESS => "no error",
        CUresult::CUDA_ERROR_INVALID_VALUE => "invalid argument",
        CUresult::CUDA_ERROR_NOT_INITIALIZED => "initialization error",
        CUresult::CUDA_ERROR_NO_DEVICE => "no CUDA-capable device is detected",
        CUresult::CUDA_ERROR_INVALID_DEVICE => "invalid device ordinal",
        CUresult::CUDA_ERROR_INVALID_IMAGE => "device kernel image is invalid",
        CUresult::CUDA_ERROR_INVALID_CONTEXT => "invalid device context",
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            "no kernel image is available for execution on the device"
        }
        CUresult::CUDA_ERROR_INVALID_PTX => "a PTX JIT compilation failed",
        CUresult::CUDA_ERROR_INVALID_HANDLE => "invalid resource handle",
        CUresult::CUDA_ERROR_NOT_FOUND => "named symbol not found",
        CUresult::CUDA_ERROR_NOT_READY => "device not ready",
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS => "an illegal memory access was encountered",
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => "too many resources requested for launch",
        CUresult::CUDA_ERROR_LAUNCH_FAILED => "unspecified launch failure",
        CUresult::CUDA_ERROR_NOT_PERMITTED => "operation not permitted",
        CUresult::CUDA_ERROR_NOT_SUPPORTED => "operation not supported",
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
            "operation not permitted when stream is capturing"
        }
        _ => return None,
    })
}

struct Texts {
    code: CUresult,
    name: CString,
    description: CString,
}

fn texts() -> &'static [Texts] {
    static TEXTS: OnceLock<Vec<Texts>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let c = |text: String| CString::new(text).unwrap_or_default();
        NAMES
            .iter()
            .map(|(code, name)| {
                let plain = || {
                    name.trim_start_matches("CUDA_ERROR_")
                        .to_lowercase()
                        .replace('_', " ")
                };
                Texts {
                    code: *code,
                    name: c((*name).to_owned()),
                    description: c(known(*code).map_or_else(plain, str::to_owned)),
                }
            })
            .collect()
    })
}

/// An unknown code is an invalid value, and its text NULL.
unsafe fn answer_text(
    error: CUresult,
    target: *mut *const c_char,
    part: fn(&'static Texts) -> &'static CStr,
) -> Result<(), CUresult> {
    let found = texts().iter().find(|texts| texts.code == error);
    // SAFETY: the caller got the target from the application, which keeps to the documentation.
    unsafe {
        out(
            target,
            found.map_or(ptr::null(), |texts| part(texts).as_ptr()),
        )?
    };
    found.map(|_| ()).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

early_entry! {
    fn cuGetErrorName(error: CUresult, pStr: *mut *const c_char) {
        answer_text(error, pStr, |texts| &texts.name)
    }

    fn cuGetErrorString(error: CUresult, pStr: *mut *const c_char) {
        answer_text(error, pStr, |texts| &texts.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_both_texts() {
        let mut text = ptr::null();
        // SAFETY: the place for the answer is ours; so is what it points to afterwards.
        let (name, description) = unsafe {
            assert_eq!(
                cuGetErrorName(CUresult(2), &raw mut text),
                CUresult::CUDA_SUCCESS
            );
            let name = CStr::from_ptr(text).to_str().unwrap();
            assert_eq!(
                cuGetErrorString(CUresult(2), &raw mut text),
                CUresult::CUDA_SUCCESS
            );
            (name, CStr::from_ptr(text).to_str().unwrap())
        };
        assert_eq!(
            (name, description),
            ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        );
        // SAFETY: as above.
        let unknown = unsafe { cuGetErrorName(CUresult(12345), &raw mut text) };
        assert_eq!(
            (unknown, text),
            (CUresult::CUDA_ERROR_INVALID_VALUE, ptr::null())
        );
        assert!(texts().len() > 100);
    }
}
