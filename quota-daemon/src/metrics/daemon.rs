//! Metrics of the daemon itself.

use std::fs;

use super::family::Family;
use super::{Counters, seconds};
use crate::report::Status;

pub(super) fn families(status: &Status, counters: &Counters) -> Vec<Family> {
    let get = |counter| Some(Counters::get(counter).into());
    let warnings = u64::try_from(status.daemon.warnings.len()).unwrap_or(u64::MAX);
    let mut build = Family::gauge(
        "gpu_quota_build_info",
        "1; the labels say which daemon this is",
    );
    build.add(
        &vec![("version", status.daemon.version.clone())],
        Some(1_u32.into()),
    );
    let mut families = vec![
        build,
        Family::gauge(
            "gpu_quota_daemon_start_time_seconds",
            "When the daemon began, Unix time",
        )
        .with(Some(status.daemon.started_at.into())),
        Family::gauge(
            "gpu_quota_daemon_warnings",
            "Warnings in the daemon's status",
        )
        .with(Some(warnings.into())),
        Family::counter(
            "gpu_quota_daemon_attaches",
            "Processes that were registered",
        )
        .with(get(&counters.attaches)),
        Family::counter(
            "gpu_quota_daemon_views",
            "Views of limits and usage that were given",
        )
        .with(get(&counters.views)),
        Family::counter(
            "gpu_quota_daemon_refused_attaches",
            "Questions that were refused",
        )
        .with(get(&counters.refused_attaches)),
        Family::counter(
            "gpu_quota_daemon_malformed_messages",
            "Messages that were no questions",
        )
        .with(get(&counters.malformed)),
        Family::counter(
            "gpu_quota_daemon_refused_connections",
            "Connections that were closed unheard: too many at once, or too slow",
        )
        .with(get(&counters.refused_connections)),
        Family::counter(
            "gpu_quota_daemon_deaths",
            "Registered processes whose end was seen",
        )
        .with(get(&counters.deaths)),
        Family::counter(
            "gpu_quota_daemon_adoptions",
            "Registered processes taken over from a predecessor",
        )
        .with(get(&counters.adopted)),
        Family::counter(
            "gpu_quota_daemon_requests",
            "Requests at the control socket",
        )
        .with(get(&counters.requests)),
        Family::counter(
            "gpu_quota_daemon_kills",
            "Unregistered processes that were killed",
        )
        .with(get(&counters.kills)),
        Family::counter(
            "gpu_quota_daemon_suppressed_log_lines",
            "Lines that were not written to the log because a container caused too many",
        )
        .with(Some(crate::log::suppressed().into())),
    ];
    if let Some(own) = Own::read() {
        families.push(
            Family::gauge(
                "gpu_quota_daemon_resident_memory_bytes",
                "Memory of the daemon",
            )
            .with(Some(own.resident.into())),
        );
        families.push(
            Family::counter(
                "gpu_quota_daemon_cpu_seconds",
                "CPU time that the daemon has used",
            )
            .with(Some(seconds(own.cpu_ns).into())),
        );
        families.push(
            Family::gauge("gpu_quota_daemon_threads", "Threads of the daemon")
                .with(Some(own.threads.into())),
        );
        families.push(
            Family::gauge(
                "gpu_quota_daemon_open_descriptors",
                "Open descriptors of the daemon",
            )
            .with(Some(own.descriptors.into())),
        );
    }
    families
}

/// What the kernel says of this process.
struct Own {
    resident: u64,
    cpu_ns: u64,
    threads: u64,
    descriptors: u64,
}

impl Own {
    fn read() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        let descriptors = fs::read_dir("/proc/self/fd").ok()?.count();
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let whole = u64::try_from(time.tv_sec)
            .ok()?
            .checked_mul(1_000_000_000)?;
        Some(Self {
            resident: field("VmRSS:")?.checked_mul(1024)?,
            cpu_ns: whole + u64::try_from(time.tv_nsec).ok()?,
            threads: field("Threads:")?,
            // One of them is that of the listing.
            descriptors: u64::try_from(descriptors).ok()?.saturating_sub(1),
        })
    }
}
