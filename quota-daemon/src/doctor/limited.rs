//! What changes for a program when the library is preloaded, and whether that is what the variables ask for.

use quota_abi::settings::{CONTEXT_DEFAULT, Device as Named, Settings};
use quota_abi::spelling::{self, Ppm};

use super::daemon::Ruled;
use super::finding::Findings;
use super::probe::{Device, Seen};
use crate::output::count;
use crate::units::size;

/// Who says what a program may have.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked<'a> {
    /// The variables.
    pub(super) settings: Option<&'a Settings>,
    /// A daemon, which variables can only lower.
    pub(super) ruled: Option<&'a Ruled>,
}

/// What is said of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Quota {
    memory: Option<u64>,
    compute: Option<Ppm>,
    /// Time may be lent on top.
    lent: bool,
    /// What a process's context is counted as.
    context: u64,
}

impl Quota {
    fn of(asked: Asked<'_>, number: u32, device: &Device) -> Self {
        let Ok(uuid) = spelling::uuid(&device.uuid) else {
            return Self::default();
        };
        let row = asked.ruled.and_then(|ruled| ruled.row(&uuid));
        let Some(settings) = asked.settings else {
            return Self::default();
        };
        let memory = settings.memory.of(Some(number), &uuid);
        let compute = settings.compute.of(Some(number), &uuid);
        let context = settings.context;
        match row {
            None => Self {
                memory,
                compute,
                lent: false,
                context: context.unwrap_or(CONTEXT_DEFAULT),
            },
            Some(row) => Self {
                memory: least(memory, row.memory),
                compute: least(compute, row.rate),
                lent: compute.is_none(),
                context: context.unwrap_or(0).max(row.context),
            },
        }
    }
}

/// The lower of two limits that may each be none.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Reports what a program sees without the library and with it, and what the library `said` meanwhile.
pub(super) fn compare(
    bare: &Seen,
    limited: &Seen,
    asked: Asked<'_>,
    said: &str,
    findings: &mut Findings,
) {
    if limited.init != 0 {
        let reason = if said.is_empty() {
            "it gave no reason"
        } else {
            said
        };
        findings.failure(
            "limited",
            format!(
                "with the library, cuInit fails with CUDA error {}: {reason}",
                limited.init
            ),
            "correct what the message names; until then no CUDA program starts under this quota",
        );
        return;
    }
    if limited.devices.len() != bare.devices.len() {
        findings.failure(
            "limited",
            format!(
                "{} without the library, {} with it",
                count(bare.devices.len(), "device", "devices"),
                limited.devices.len()
            ),
            "this is a fault of the library: please report it with this output",
        );
        return;
    }
    for (number, (bare, limited)) in (0..).zip(bare.devices.iter().zip(&limited.devices)) {
        let quota = Quota::of(asked, number, bare);
        memory(bare, limited, quota, findings);
        time(&limited.uuid, quota, findings);
    }
    if let Some(settings) = asked.settings {
        not_seen(settings, &bare.devices, findings);
    }
    if !said.is_empty() {
        findings.info("limited", format!("the library says: {said}"));
    }
}

fn memory(bare: &Device, limited: &Device, quota: Quota, findings: &mut Findings) {
    let (shown, real) = (size(limited.total), size(bare.total));
    let text = format!("{} shows {shown} of {real}", limited.uuid);
    let Some(limit) = quota.memory else {
        let text = format!("{text}: no memory limit is set for it here");
        findings.info("limited", text);
        return;
    };
    let limit_text = size(limit);
    if limited.total > limit {
        findings.failure(
            "limited",
            format!("{text}, although its limit is {limit_text}"),
            "the library is not in the way of the driver here: please report it with this output",
        );
    } else if limit > bare.total {
        findings.warning(
            "limited",
            format!("{text}: its limit of {limit_text} is more than it has, and limits nothing"),
            "set a smaller GPU_QUOTA_MEMORY, or none where no limit is meant",
        );
    } else if limit <= quota.context {
        findings.warning(
            "limited",
            format!(
                "{text}, and a process's context is counted as {}: nothing is left to allocate",
                size(quota.context)
            ),
            "set a larger GPU_QUOTA_MEMORY, or a smaller GPU_QUOTA_CONTEXT",
        );
    } else {
        findings.ok("limited", format!("{text} under this environment's quota"));
    }
}

fn time(uuid: &str, quota: Quota, findings: &mut Findings) {
    match quota.compute {
        Some(ppm) => {
            let percent = f64::from(ppm) / f64::from(spelling::WHOLE / 100);
            let text = if quota.lent {
                format!(
                    "{uuid} gives {percent} % of its time by the daemon's policy, and what is lent to a share"
                )
            } else {
                format!(
                    "{uuid} gives at most {percent} % of its time under this environment's quota"
                )
            };
            findings.ok("limited", text);
        }
        None => findings.info(
            "limited",
            format!("{uuid} gives all of its time: no limit of GPU time is set for it here"),
        ),
    }
}

/// Devices that the variables name and a program started here does not see: a list for a whole host, or a slip.
fn not_seen(settings: &Settings, devices: &[Device], findings: &mut Findings) {
    for named in settings.named() {
        let seen = (0..).zip(devices).any(|(number, device)| match named {
            Named::Every => true,
            Named::Number(wanted) => wanted == number,
            Named::Uuid(uuid) => spelling::uuid(&device.uuid) == Ok(uuid),
        });
        if !seen {
            findings.info(
                "limited",
                format!("{named} has a quota, and a program started here does not see it"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(init: u32, total: u64) -> Seen {
        let device = Device {
            name: "G".into(),
            uuid: "GPU-1".into(),
            total,
        };
        Seen {
            init,
            devices: if init == 0 { vec![device] } else { Vec::new() },
            ..Seen::default()
        }
    }

    fn texts(findings: &Findings) -> String {
        format!("{findings:?}")
    }

    #[test]
    fn a_quota_refused_at_init_shows_the_librarys_own_words() {
        let mut findings = Findings::default();
        compare(
            &seen(0, 8 << 30),
            &seen(800, 0),
            Asked::default(),
            "GPU_QUOTA_MEMORY=x: no size",
            &mut findings,
        );
        assert!(findings.failed());
        assert!(texts(&findings).contains("GPU_QUOTA_MEMORY=x: no size"));
    }

    #[test]
    fn a_device_that_is_named_and_not_there_is_told() {
        let list = b"0=1GiB,3=2GiB";
        let settings = quota_abi::settings::read(|name| {
            (name == "GPU_QUOTA_MEMORY").then_some(list.as_slice())
        });
        let mut findings = Findings::default();
        not_seen(&settings.unwrap(), &seen(0, 8 << 30).devices, &mut findings);
        let text = texts(&findings);
        assert!(
            text.contains("device 3 has") && !text.contains("device 0"),
            "{text}"
        );
        assert!(!findings.failed());
    }

    /// What is found of a device with 8 GiB that shows `total` under `limit`.
    fn of_memory(total: u64, limit: Option<u64>) -> Findings {
        let mut findings = Findings::default();
        let quota = Quota {
            memory: limit,
            context: CONTEXT_DEFAULT,
            ..Quota::default()
        };
        memory(
            &seen(0, 8 << 30).devices[0],
            &seen(0, total).devices[0],
            quota,
            &mut findings,
        );
        findings
    }

    #[test]
    fn a_smaller_total_is_a_quota_at_work() {
        let text = texts(&of_memory(1 << 30, Some(1 << 30)));
        assert!(text.contains("1 GiB of 8 GiB under"), "{text}");
        assert!(text.contains("Ok"), "{text}");
    }

    #[test]
    fn a_limit_that_does_not_show_is_a_failure() {
        assert!(of_memory(8 << 30, Some(1 << 30)).failed());
        assert!(!of_memory(8 << 30, Some(8 << 30)).failed());
        assert!(!of_memory(8 << 30, None).failed());
    }

    #[test]
    fn a_limit_that_limits_nothing_or_leaves_nothing_is_told() {
        for (total, limit, told) in [
            (8 << 30, 9 << 30, "9 GiB is more than it has"),
            (400 << 20, 400 << 20, "nothing is left"),
        ] {
            let findings = of_memory(total, Some(limit));
            let text = texts(&findings);
            assert!(text.contains("Warning") && text.contains(told), "{text}");
            assert!(!findings.failed());
        }
        let whole = texts(&of_memory(8 << 30, Some(8 << 30)));
        assert!(!whole.contains("Warning"), "{whole}");
    }

    #[test]
    fn time_is_told_with_its_share() {
        let told = |compute| {
            let quota = Quota {
                compute,
                ..Quota::default()
            };
            let mut findings = Findings::default();
            time("GPU-1", quota, &mut findings);
            texts(&findings)
        };
        assert!(told(Some(305_000)).contains("at most 30.5 %"));
        assert!(told(None).contains("no limit of GPU time"));
    }
}
