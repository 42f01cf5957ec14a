//! What the variables of this environment say.

use quota_abi::settings::Settings;

use super::finding::Findings;
use crate::environment::Environment;

/// Every variable that says something about a quota, aliases first by device.
const VARIABLES: [&str; 7] = [
    "GPU_QUOTA_MEMORY",
    "GPU_QUOTA_COMPUTE",
    "GPU_QUOTA_GROUP",
    "GPU_QUOTA_CONTEXT",
    "GPU_QUOTA_UTILIZATION",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
];

/// Examines them; gives what they say when they make sense.
pub(super) fn examine(findings: &mut Findings) -> Option<Settings> {
    let environment = Environment::current();
    let settings = match environment.settings() {
        Ok(settings) => settings,
        Err(refusal) => {
            findings.failure(
                "settings",
                refusal.to_string(),
                "correct the variable; until then no CUDA program starts here",
            );
            return None;
        }
    };
    let said: Vec<_> = VARIABLES
        .iter()
        .filter_map(|name| Some(format!("{name}={}", environment.text(name)?)))
        .collect();
    if settings.memory.is_empty() && settings.compute.is_empty() {
        findings.info(
            "settings",
            "no variable sets a limit: a program started here has none",
        );
    } else {
        findings.ok(
            "settings",
            format!("a program started here gets {}", said.join(" ")),
        );
    }
    if !settings.compute.is_empty() {
        mps(&environment, findings);
    }
    Some(settings)
}

/// Under MPS the processes of a GPU share one context, and nothing can give them slices of time.
fn mps(environment: &Environment, findings: &mut Findings) {
    let folder = environment
        .text("CUDA_MPS_PIPE_DIRECTORY")
        .unwrap_or_else(|| "/tmp/nvidia-mps".into());
    if std::path::Path::new(&folder).join("control").exists() {
        findings.warning(
            "mps",
            format!(
                "an MPS server seems to run ({folder}): a cap on GPU time works by estimate only"
            ),
            "use CUDA_MPS_ACTIVE_THREAD_PERCENTAGE for shares under MPS",
        );
    }
}
