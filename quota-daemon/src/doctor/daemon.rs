//! Does a daemon rule programs that are started here, and what does it give them?
//!
//! The same places are asked in the same order as the library asks them.

use std::env;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use quota_abi::cgroups;
use quota_abi::policy::{self, NO_LIMIT, map};
use quota_abi::spelling::Ppm;
use quota_abi::sync::Ordering;
use quota_abi::wire::{CONTAINER_SOCKET, HOST_CGROUPS, HOST_SOCKET, Purpose, SOCKET_NAME, Status};

use super::finding::Findings;
use crate::attach::{self, Answered, Silent};
use crate::model::Uuid;
use crate::units::{ppm, size};

/// What programs started here would find.
pub(super) enum Daemon {
    /// None is asked for: every process enforces its own variables.
    NotAsked,
    /// It rules them.
    Rules(Ruled),
    /// It refuses them.
    Refuses,
    /// It is asked for and away.
    Unreachable,
}

/// What its policy says.
pub(super) struct Ruled {
    pub(super) rows: Vec<Row>,
}

impl Ruled {
    pub(super) fn row(&self, uuid: &[u8; 16]) -> Option<&Row> {
        self.rows.iter().find(|row| row.uuid == *uuid)
    }
}

/// What it says of one device.
pub(super) struct Row {
    pub(super) uuid: [u8; 16],
    pub(super) memory: Option<u64>,
    /// Without what is lent.
    pub(super) rate: Option<Ppm>,
    pub(super) context: u64,
    pub(super) observe: bool,
}

impl Row {
    fn of(row: &policy::Row) -> Option<Self> {
        let mode = row.mode.load(Ordering::Relaxed);
        let memory = row.memory.load(Ordering::Relaxed);
        Some(Self {
            uuid: row.uuid()?,
            memory: (memory != NO_LIMIT).then_some(memory),
            rate: (mode & policy::mode::COMPUTE != 0).then(|| row.rate.load(Ordering::Relaxed)),
            context: row.context.load(Ordering::Relaxed),
            observe: mode & policy::mode::OBSERVE != 0,
        })
    }

    pub(super) fn name(&self) -> String {
        Uuid(self.uuid).to_string()
    }

    fn describe(&self) -> String {
        let memory = self.memory.map_or("all memory".into(), size);
        let time = self.rate.map_or("free GPU time".into(), |rate| {
            format!("{} of its time", ppm(rate))
        });
        let observe = if self.observe { ", only observed" } else { "" };
        format!("{}: {memory}, {time}{observe}", self.name())
    }
}

/// Where the library would ask, and what if nobody answers.
struct Place {
    socket: PathBuf,
    /// Programs are refused then.
    required: bool,
    mend: &'static str,
}

impl Place {
    fn find() -> Self {
        let own = Path::new(CONTAINER_SOCKET);
        if own.parent().is_some_and(Path::is_dir) {
            return Self {
                socket: own.into(),
                required: true,
                mend: "start the daemon on the host; until then new programs wait 5 s and are refused",
            };
        }
        let named = env::var_os("GPU_QUOTA_SOCKET").filter(|socket| !socket.is_empty());
        if let Some(named) = named.map(PathBuf::from) {
            return Self {
                socket: if named.is_dir() {
                    named.join(SOCKET_NAME)
                } else {
                    named
                },
                required: true,
                mend: "start the daemon, or unset GPU_QUOTA_SOCKET to take quotas from variables",
            };
        }
        Self {
            socket: HOST_SOCKET.into(),
            required: is_listed(),
            mend: "start the daemon: it has a rule for this cgroup, and new programs wait 5 s and are refused",
        }
    }
}

/// Whether the host's daemon had a rule for this cgroup when it was last there.
fn is_listed() -> bool {
    let patterns = std::fs::read(HOST_CGROUPS).unwrap_or_default();
    let mut buffer = [0_u8; 4096];
    let own = cgroups::own(&mut buffer);
    let mut patterns = patterns.split(|byte| *byte == b'\n');
    patterns.any(|pattern| !pattern.is_empty() && cgroups::matches(pattern, own))
}

pub(super) fn examine(findings: &mut Findings) -> Daemon {
    let place = Place::find();
    let socket = place.socket.display();
    match attach::ask(&place.socket, Purpose::View) {
        Ok(answered) => heard(&place, answered, findings),
        Err(Silent::Away(_)) if !place.required => {
            findings.info("daemon", "none is asked for: quotas come from variables");
            Daemon::NotAsked
        }
        Err(silent) => {
            let denied = matches!(silent, Silent::Away(rustix::io::Errno::ACCESS));
            let mend = if denied {
                "this user may not use the socket: check its owner and mode"
            } else {
                place.mend
            };
            findings.failure("daemon", format!("{socket}: {silent}"), mend);
            Daemon::Unreachable
        }
    }
}

fn heard(place: &Place, answered: Answered, findings: &mut Findings) -> Daemon {
    let Answered { answer, policy } = answered;
    let socket = place.socket.display();
    match answer.status {
        Status::Granted => {
            let mapped = policy.map(|file| map::Read::from_file(file.as_fd()));
            let Some(Ok(policy)) = mapped else {
                let text = format!("{socket}: what it hands over is no policy of this version");
                findings.failure("daemon", text, "upgrade the older of library and daemon");
                return Daemon::Refuses;
            };
            let rows = policy.get().rows.iter().filter_map(Row::of).collect();
            let ruled = Ruled { rows };
            told(&ruled, &answer.container, place, findings);
            Daemon::Rules(ruled)
        }
        Status::NoRule if !place.required => {
            let text = format!("{socket} has no rule for this cgroup: quotas come from variables");
            findings.info("daemon", text);
            Daemon::NotAsked
        }
        _ => {
            let mend = match answer.status {
                Status::Version => "upgrade the older of library and daemon",
                Status::NoRule => {
                    "declare a container with a pattern for this cgroup, or [default]"
                }
                _ => "the daemon's log says more; until this is mended no CUDA program starts here",
            };
            findings.failure("daemon", format!("{socket}: {}", answer.text), mend);
            Daemon::Refuses
        }
    }
}

fn told(ruled: &Ruled, container: &str, place: &Place, findings: &mut Findings) {
    let socket = place.socket.display();
    findings.ok(
        "daemon",
        format!("a program started here is in container {container}, by {socket}"),
    );
    for row in &ruled.rows {
        findings.info("policy", row.describe());
    }
    if ruled.rows.is_empty() {
        findings.warning(
            "policy",
            format!("container {container} may use no device that the daemon knows"),
            "check that the daemon sees the GPUs (quota-daemon status), and the container's devices",
        );
    }
    writable(&place.socket, findings);
}

/// What is mounted into a container for its socket must not be the container's to change.
fn writable(socket: &Path, findings: &mut Findings) {
    if socket != Path::new(CONTAINER_SOCKET) {
        return;
    }
    let Some(folder) = socket.parent() else {
        return;
    };
    let flags = rustix::fs::statvfs(folder).map(|found| found.f_flag);
    if flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY)) {
        findings.ok(
            "mount",
            format!("{} is mounted read-only", folder.display()),
        );
    } else {
        findings.warning(
            "mount",
            format!(
                "{} can be written: this container could put another socket there",
                folder.display()
            ),
            "mount it read-only (Docker: --mount type=bind,readonly,...)",
        );
    }
}
