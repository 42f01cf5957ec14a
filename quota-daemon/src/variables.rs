//! Which variables are read at all, so that a misspelt one is told: a quota that is silently not enforced would be worse.

use crate::{shim, words};

/// Every variable of ours that the library or this program reads.
const READ: [&str; 15] = [
    "GPU_QUOTA_MEMORY",
    "GPU_QUOTA_COMPUTE",
    "GPU_QUOTA_GROUP",
    "GPU_QUOTA_CONTEXT",
    "GPU_QUOTA_UTILIZATION",
    "GPU_QUOTA_LOG",
    "GPU_QUOTA_LOG_FILE",
    "GPU_QUOTA_SOCKET",
    shim::VARIABLE,
    "GPU_QUOTA_CONFIG",
    "GPU_QUOTA_STATE",
    "GPU_QUOTA_ADMINS",
    "GPU_QUOTA_METRICS",
    "GPU_QUOTA_DAEMON_LOG",
    "GPU_QUOTA_DAEMON_LOG_FORMAT",
];

/// What other shims read: as they are, or with `_` and a device's number of at most two digits behind them.
const ALIASES: [&str; 2] = ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"];

/// What cGPU reads.
const CGPU: [&str; 4] = [
    "ALIYUN_COM_GPU_MEM_CONTAINER",
    "ALIYUN_COM_GPU_MEM_DEV",
    "ALIYUN_COM_GPU_MEM_UNIT",
    "CGPU_DISABLE",
];

/// What the repository's own tests are told by.
const TESTS: [&str; 3] = [
    "GPU_QUOTA_DIST",
    "GPU_QUOTA_TEST_FULL",
    "GPU_QUOTA_TEST_REAL",
];

/// Letters that may be wrong in a name for it still to be recognised.
const SLIPS: usize = 3;

/// A variable that looks like one of ours, and that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// What was most likely meant.
    pub meant: Option<&'static str>,
}

/// Whether this variable says something about a quota.
#[must_use]
pub fn is_read(name: &str) -> bool {
    READ.contains(&name)
        || CGPU.contains(&name)
        || ALIASES.into_iter().any(|alias| is_alias(name, alias))
}

/// Those of `names` that were meant for us and are not read.
pub fn unknown<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Unknown> {
    names
        .filter(|name| looks_like_ours(name) && !is_read(name) && !TESTS.contains(name))
        .map(|name| Unknown {
            name: name.into(),
            meant: nearest(name),
        })
}

fn looks_like_ours(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("GPU_QUOTA")
        || name.starts_with("GPUQUOTA")
        || ALIASES.into_iter().any(|alias| name.starts_with(alias))
}

fn is_alias(name: &str, alias: &str) -> bool {
    let Some(rest) = name.strip_prefix(alias) else {
        return false;
    };
    let Some(number) = rest.strip_prefix('_') else {
        return rest.is_empty();
    };
    // As the library writes the numbers that it looks for: 0 to 99, without zeros before them.
    number
        .parse::<u8>()
        .is_ok_and(|value| value < 100 && value.to_string() == number)
}

fn nearest(name: &str) -> Option<&'static str> {
    let known = READ.into_iter().chain(ALIASES);
    words::nearest(&name.to_ascii_uppercase(), known, SLIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> Vec<(String, Option<&'static str>)> {
        unknown(names.iter().copied())
            .map(|Unknown { name, meant }| (name, meant))
            .collect()
    }

    #[test]
    fn what_is_read_is_not_told() {
        let mut all = READ.to_vec();
        all.extend(ALIASES);
        all.extend(TESTS);
        all.extend(["CUDA_DEVICE_SM_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT_99"]);
        all.extend(["GPU_SIM", "CUDA_VISIBLE_DEVICES", "QUOTA", "PATH"]);
        assert_eq!(told(&all), []);
    }

    #[test]
    fn every_variable_of_the_settings_is_known() {
        let asked = std::cell::RefCell::new(Vec::new());
        let _ = quota_abi::settings::read(|name| {
            asked.borrow_mut().push(name.to_owned());
            None
        });
        let asked = asked.into_inner();
        assert!(asked.len() > READ.len(), "{asked:?}");
        for name in asked {
            assert!(is_read(&name), "{name}");
        }
    }

    #[test]
    fn a_slip_is_told_with_what_was_meant() {
        for (name, meant) in [
            ("GPU_QUOTA_MEMORI", Some("GPU_QUOTA_MEMORY")),
            ("GPU_QUOTA_MEM", Some("GPU_QUOTA_MEMORY")),
            ("gpu_quota_compute", Some("GPU_QUOTA_COMPUTE")),
            ("GPUQUOTA_GROUP", Some("GPU_QUOTA_GROUP")),
            ("GPU_QUOTA_UTILISATION", Some("GPU_QUOTA_UTILIZATION")),
            (
                "CUDA_DEVICE_MEMORY_LIMITS",
                Some("CUDA_DEVICE_MEMORY_LIMIT"),
            ),
            ("CUDA_DEVICE_SM_LIMIT_07", Some("CUDA_DEVICE_SM_LIMIT")),
            ("CUDA_DEVICE_SM_LIMIT_100", None),
            ("GPU_QUOTA_SOMETHING_ELSE", None),
        ] {
            assert_eq!(told(&[name]), [(name.to_string(), meant)]);
        }
    }
}
