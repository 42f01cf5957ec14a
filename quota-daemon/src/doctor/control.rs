//! The daemon of this host, where there is one and this user may ask it.

use std::path::Path;

use super::finding::Findings;
use crate::api::Request;
use crate::client::Client;
use crate::output::count;
use crate::report::Status;
use crate::table::clean;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Examines the daemon behind a control socket.
pub(super) fn examine(socket: &Path, findings: &mut Findings) {
    // Inside of a container, or on a host without a daemon.
    if !socket.exists() {
        return;
    }
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(stop) => {
            let denied = std::os::unix::net::UnixStream::connect(socket)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
            if denied {
                findings.info("control", stop.to_string());
            } else {
                let mend =
                    "start it: containers stay limited meanwhile, and their new processes wait";
                findings.warning("control", stop.to_string(), mend);
            }
            return;
        }
    };
    match client.ask::<Status>(&Request::Status) {
        Ok(status) => told(&status, socket, findings),
        Err(stop) => findings.warning(
            "control",
            stop.to_string(),
            "if it stays so, restart the daemon: containers stay limited meanwhile",
        ),
    }
}

fn told(status: &Status, socket: &Path, findings: &mut Findings) {
    let daemon = &status.daemon;
    let processes: u32 = status.containers.iter().map(|one| one.processes).sum();
    let text = format!(
        "daemon {} at {}, pid {}: {}, {}",
        daemon.version,
        socket.display(),
        daemon.pid,
        count(status.containers.len(), "container", "containers"),
        count(processes, "process", "processes"),
    );
    if daemon.version == VERSION {
        findings.ok("control", text);
    } else {
        findings.warning(
            "control",
            format!("{text}; this program is version {VERSION}"),
            "restart the daemon after an upgrade: containers stay limited meanwhile",
        );
    }
    for warning in &daemon.warnings {
        let mend = "docs/operations.md has the daemon's warnings and what to do";
        findings.warning("control", clean(warning), mend);
    }
    for device in &status.devices {
        if let Some(trouble) = &device.trouble {
            findings.warning(
                "control",
                format!("GPU {}: {}", device.device.uuid, clean(trouble)),
                "limits hold; overhead and foreign processes are not seen until NVML tells",
            );
        }
        if let Some(first) = device.unregistered.first() {
            let number = device.unregistered.len();
            findings.warning(
                "control",
                format!(
                    "GPU {}: {} not registered, the first with pid {}",
                    device.device.uuid,
                    count(number, "process is", "processes are"),
                    first.pid
                ),
                "start them with the library preloaded; `quota-daemon status` lists them",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_says_is_judged() {
        let mut status = crate::status::tests::status();
        status.daemon.version = "0.0.1".into();
        let mut findings = Findings::default();
        told(&status, Path::new("/run/c.sock"), &mut findings);
        let text = format!("{findings:?}");
        for part in [
            "daemon 0.0.1 at /run/c.sock, pid 42: 2 containers, 4 processes; this program",
            "NVML does not answer",
            "1 process is not registered, the first with pid 4711",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!findings.failed());
        status.daemon.version = VERSION.into();
        let mut findings = Findings::default();
        told(&status, Path::new("/run/c.sock"), &mut findings);
        assert!(format!("{findings:?}").contains("Ok"));
    }
}
