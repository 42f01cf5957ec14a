//! Containers of a user who is not root.

use std::os::unix::fs::PermissionsExt;

use quota_tests::podman::{Podman, User};

use super::Case;
use super::stage::{Stage, flags, limited};

pub(crate) const CASES: &[Case] = &[("rootless podman: main process, exec, env -i", rootless)];

fn rootless(stage: &Stage<'_>) -> String {
    let Some(user) = User::with_subordinate_ids() else {
        return "skipped: no user has subordinate ids; `useradd` gives some".into();
    };
    let who = format!("as {} ({})", user.name, user.ids.0);
    let rootfs = stage.files.join("small-of-user");
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").arg(stage.files.join("small")).arg(&rootfs);
    assert!(copy.status().unwrap().success());
    let flags = flags(stage.sim, stage.files);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    std::fs::set_permissions(stage.files, PermissionsExt::from_mode(0o755)).unwrap();
    let mut chown = std::process::Command::new("chown");
    let owner = format!("{}:{}", user.ids.0, user.ids.1);
    chown.args(["-hR", &owner]).arg(&rootfs);
    assert!(chown.status().unwrap().success());
    let rootfs = rootfs.to_str().unwrap();
    let podman = match Podman::new(Some(user), &flags, rootfs) {
        Ok(podman) => podman,
        Err(why) => return format!("skipped: {why}"),
    };
    let of = stage.of("a");
    let of = of.each_ref().map(String::as_str);
    let run = |mib| podman.run("--rm", &of, rootfs, &["sh", "-c", &stage.hold("", mib)]);
    limited(&run(3000), &run(1500));
    let started = podman.run("--detach", &of, rootfs, &["sleep", "600"]);
    let id = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    for before in ["", "env -i "] {
        let exec = |mib| {
            let script = format!("{before}{}", stage.bare_hold("a", mib));
            podman
                .command(&["exec", &id, "sh", "-c", &script])
                .output()
                .unwrap()
        };
        limited(&exec(3000), &exec(1500));
    }
    podman.ok(&["rm", "--force", "--time=0", &id]);
    format!("{who}: as root's")
}
