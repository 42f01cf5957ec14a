//! What NVML's errors mean to the person who must mend them.

use nvml_wrapper::error::NvmlError;

/// What failed, and what can be done.
pub(super) fn explain(call: &str, error: &NvmlError) -> String {
    let (what, mend) = match error {
        NvmlError::LibloadingError(error) => {
            let error = error_and_cause(error);
            return format!(
                "NVML is not there ({error}): without the driver's libnvidia-ml.so.1 nothing is known of the GPUs; in a \
                 container give the daemon NVIDIA_DRIVER_CAPABILITIES=utility"
            );
        }
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => (
            "this driver does not have the function".to_owned(),
            "a newer driver does",
        ),
        NvmlError::DriverNotLoaded => (
            "the NVIDIA driver is not loaded".to_owned(),
            "load it: `modprobe nvidia`",
        ),
        NvmlError::LibRmVersionMismatch => (
            "library and kernel module are of different versions".to_owned(),
            "after an upgrade of the driver, reload its modules or boot",
        ),
        NvmlError::NoPermission => (
            "not permitted".to_owned(),
            "the daemon needs read and write access to /dev/nvidia*",
        ),
        NvmlError::GpuLost => (
            "the GPU is lost (it has fallen off the bus)".to_owned(),
            "see `dmesg` for NVRM Xid lines; it needs a reset or a boot",
        ),
        NvmlError::ResetRequired => (
            "the GPU needs a reset".to_owned(),
            "`nvidia-smi --gpu-reset` once nobody uses it",
        ),
        NvmlError::NotSupported => ("not supported for this device".to_owned(), ""),
        other => (other.to_string(), ""),
    };
    let mend = if mend.is_empty() {
        String::new()
    } else {
        format!(": {mend}")
    };
    format!("{call}: {what}{mend}")
}

fn error_and_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

/// A time of day, UTC, for texts that must stay the same while the trouble lasts.
pub(super) fn clock(unix: u64) -> String {
    let day = unix % 86_400;
    format!("{:02}:{:02}:{:02} UTC", day / 3600, day / 60 % 60, day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_and_the_mend() {
        let text = explain("nvmlDeviceGetMemoryInfo", &NvmlError::GpuLost);
        assert!(
            text.starts_with("nvmlDeviceGetMemoryInfo: the GPU is lost"),
            "{text}"
        );
        assert!(text.contains("dmesg"), "{text}");
        let text = explain("nvmlInit", &NvmlError::Unknown);
        assert!(
            text.starts_with("nvmlInit: ") && !text.ends_with(": "),
            "{text}"
        );
    }

    #[test]
    fn a_time_of_day() {
        assert_eq!(clock(1_700_000_000), "22:13:20 UTC");
        assert_eq!(clock(86_400), "00:00:00 UTC");
    }
}
