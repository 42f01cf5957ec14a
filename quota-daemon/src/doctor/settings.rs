//! What the variables of this environment say.

use quota_abi::settings::Settings;

use super::daemon::Ruled;
use super::finding::Findings;
use crate::environment::Environment;
use crate::shim;
use crate::variables::{self, Unknown};

/// Examines them, beside the policy of a daemon that rules here; gives what they say when they make sense.
pub(super) fn examine(ruled: Option<&Ruled>, findings: &mut Findings) -> Option<Settings> {
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
    unknown(&environment, findings);
    let said: Vec<_> = environment
        .names()
        .filter(|name| decides(name, &environment))
        .filter_map(|name| Some(format!("{name}={}", environment.text(name)?)))
        .collect();
    let limits = !settings.memory.is_empty() || !settings.compute.is_empty();
    if let Some(ruled) = ruled {
        beside(ruled, &settings, &said, findings);
    } else if !limits {
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

/// Under a daemon a variable can only lower what its policy says.
fn beside(ruled: &Ruled, settings: &Settings, said: &[String], findings: &mut Findings) {
    if settings.memory.is_empty() && settings.compute.is_empty() {
        let text = "no variable sets a limit: the daemon's policy holds alone";
        findings.info("settings", text);
        return;
    }
    for row in &ruled.rows {
        let memory = settings.memory.of(None, &row.uuid);
        let compute = settings.compute.of(None, &row.uuid);
        if memory > row.memory && row.memory.is_some() || compute > row.rate && row.rate.is_some() {
            findings.warning(
                "settings",
                format!(
                    "{} ask for more of {} than the daemon's policy gives, which holds",
                    said.join(" "),
                    row.name()
                ),
                "unset them, or let the daemon give more: quota-daemon set",
            );
            return;
        }
    }
    findings.ok(
        "settings",
        format!("{} lower what the daemon's policy gives", said.join(" ")),
    );
}

/// Whether a variable has a say in the quota of a program started here: an alias has none beside the variable that it
/// stands for.
fn decides(name: &str, environment: &Environment) -> bool {
    let outranked =
        |prefix: &str, by: &str| name.starts_with(prefix) && environment.text(by).is_some();
    match name {
        "GPU_QUOTA_LOG" | "GPU_QUOTA_LOG_FILE" | "GPU_QUOTA_SOCKET" | shim::VARIABLE => false,
        _ => {
            variables::is_read(name)
                && !outranked("CUDA_DEVICE_MEMORY_LIMIT", "GPU_QUOTA_MEMORY")
                && !outranked("CUDA_DEVICE_SM_LIMIT", "GPU_QUOTA_COMPUTE")
        }
    }
}

/// What looks like a variable of ours and is read by nobody: a limit that was meant and is not there.
fn unknown(environment: &Environment, findings: &mut Findings) {
    for Unknown { name, meant } in variables::unknown(environment.names()) {
        let mend = match meant {
            Some(meant) => format!("it is spelt {meant}"),
            None => "README.md has the table of variables".into(),
        };
        findings.warning(
            "settings",
            format!("{name} is no variable that anything reads, so it does nothing"),
            mend,
        );
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::daemon::Row;

    #[test]
    fn a_variable_that_asks_for_more_than_the_policy_is_told() {
        let ruled = Ruled {
            rows: vec![Row {
                uuid: [7; 16],
                memory: Some(2 << 30),
                rate: None,
                context: 0,
                observe: false,
            }],
        };
        for (value, told) in [
            ("1GiB", "X lower what the daemon's policy gives"),
            (
                "3GiB",
                "X ask for more of GPU-07070707-0707-0707-0707-070707070707",
            ),
        ] {
            let settings = quota_abi::settings::read(|name| {
                (name == "GPU_QUOTA_MEMORY").then_some(value.as_bytes())
            });
            let mut findings = Findings::default();
            beside(&ruled, &settings.unwrap(), &["X".into()], &mut findings);
            let text = format!("{findings:?}");
            assert!(text.contains(told), "{text}");
        }
        let mut findings = Findings::default();
        beside(&ruled, &Settings::default(), &[], &mut findings);
        assert!(format!("{findings:?}").contains("holds alone"));
    }
}
