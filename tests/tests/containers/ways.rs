//! The ways in which a process comes into a container.

use super::Case;
use super::stage::{Stage, limited, result};

pub(crate) const CASES: &[Case] = &[
    ("the main process", main_process),
    ("the three mounts by hand, without a device", by_hand),
    ("podman exec", exec),
    ("su -", su),
    ("env -i", empty_environment),
    ("LD_PRELOAD unset, and set to something else", other_preload),
    ("a child of a child, in a session of its own", grandchild),
    ("another user, without any capability", another_user),
    ("a setuid program of root, started by another user", setuid),
    ("two processes of one container", two_processes),
    ("a tmpfs over /run", tmpfs_over_run),
    ("a root file system for reading only", read_only),
    ("privileges that cannot grow", no_new_privileges),
];

const MORE: u64 = 3000;
const LESS: u64 = 1500;

fn main_process(stage: &Stage<'_>) -> String {
    let run = |mib| stage.run("a", &[], &stage.hold("", mib));
    limited(&run(MORE), &run(LESS))
}

/// As docs/operations.md has it, for runtimes that know no devices.
fn by_hand(stage: &Stage<'_>) -> String {
    let state = stage.daemon.state();
    let (state, files) = (state.display(), stage.files.display());
    let library = "/usr/local/lib/gpu-quota/libquota_shim.so";
    let preload = stage.files.join("ld.so.preload");
    std::fs::write(&preload, format!("{library}\n")).unwrap();
    let flags = [
        format!("--volume={state}/containers/a:/run/gpu-quota/container:ro"),
        format!("--volume={files}/libquota_shim.so:{library}:ro"),
        format!("--volume={}:/etc/ld.so.preload:ro", preload.display()),
        "--env=GPU_SIM_TENANT=a".into(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let run = |mib| {
        let script = stage.hold("", mib);
        stage
            .podman
            .run("--rm", &flags, super::stage::HOST, &["sh", "-c", &script])
    };
    limited(&run(MORE), &run(LESS))
}

fn exec(stage: &Stage<'_>) -> String {
    let run = |mib| stage.exec(&["--env=GPU_SIM_TENANT=a"], &stage.hold("", mib));
    limited(&run(MORE), &run(LESS))
}

fn su(stage: &Stage<'_>) -> String {
    let run = |mib| {
        stage.exec(
            &[],
            &format!("su - root -c '{}'", stage.bare_hold("a", mib)),
        )
    };
    limited(&run(MORE), &run(LESS))
}

fn empty_environment(stage: &Stage<'_>) -> String {
    let run = |mib| stage.exec(&[], &format!("env -i {}", stage.bare_hold("a", mib)));
    limited(&run(MORE), &run(LESS))
}

fn other_preload(stage: &Stage<'_>) -> String {
    let run = |mib| {
        stage.exec(
            &[],
            &format!("unset LD_PRELOAD; {}", stage.bare_hold("a", mib)),
        )
    };
    limited(&run(MORE), &run(LESS));
    // The simulator's driver stands for any other library.
    let run = |mib| {
        stage.exec(
            &[],
            &format!("LD_PRELOAD=libcuda.so.1 {}", stage.bare_hold("a", mib)),
        )
    };
    limited(&run(MORE), &run(LESS))
}

fn grandchild(stage: &Stage<'_>) -> String {
    let run = |mib| {
        let hold = stage.hold("", mib);
        stage.run(
            "a",
            &[],
            &format!("setsid --wait sh -c 'sh -c \"{hold}\"; true'; true"),
        )
    };
    limited(&run(MORE), &run(LESS))
}

fn another_user(stage: &Stage<'_>) -> String {
    let flags = ["--user=65534:65534", "--cap-drop=all"];
    let run = |mib| stage.run("a", &flags, &stage.hold("", mib));
    limited(&run(MORE), &run(LESS))
}

fn setuid(stage: &Stage<'_>) -> String {
    let run = |mib: u64| {
        // The file becomes another one in the container's own layer.
        let script = format!(
            "cp {} /usr/bin/setuid-hold && chmod 4755 /usr/bin/setuid-hold && \
             exec setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/setuid-hold {mib} </dev/null",
            stage.program("hold").display()
        );
        stage.run("a", &[], &script)
    };
    limited(&run(MORE), &run(LESS))
}

/// They share one quota, whichever way each has come.
fn two_processes(stage: &Stage<'_>) -> String {
    let first = format!("sleep 60 | {} 1000", stage.program("hold").display());
    let id = stage.start("a", &[], &["sh", "-c", &first]);
    stage.daemon.wait("the first one", |daemon| {
        daemon.share("a").memory_used_bytes > 1000 << 20
    });
    let exec = |mib: u64| {
        let mut command =
            stage
                .podman
                .command(&["exec", "--env=GPU_SIM_TENANT=a", &id, "sh", "-c"]);
        command.arg(stage.hold("", mib)).output().unwrap()
    };
    let (more, less) = (exec(600), exec(300));
    stage.end(&id);
    assert_eq!((result(&more), result(&less)), (2, 0), "{more:?}{less:?}");
    "beside 1000 MiB of 2 GiB: 600 refused, 300 granted".into()
}

/// As systemd in a container has it. The image of the small one has nothing in it that would be copied.
fn tmpfs_over_run(stage: &Stage<'_>) -> String {
    let small = stage.files.join("small");
    let run = |mib| {
        stage.run_in(
            "a",
            &["--tmpfs=/run"],
            small.to_str().unwrap(),
            &stage.hold("", mib),
        )
    };
    limited(&run(MORE), &run(LESS))
}

fn read_only(stage: &Stage<'_>) -> String {
    let small = stage.files.join("small");
    let run = |mib| {
        stage.run_in(
            "a",
            &["--read-only"],
            small.to_str().unwrap(),
            &stage.hold("", mib),
        )
    };
    limited(&run(MORE), &run(LESS))
}

fn no_new_privileges(stage: &Stage<'_>) -> String {
    let flags = ["--security-opt=no-new-privileges"];
    let run = |mib| stage.run("a", &flags, &stage.hold("", mib));
    limited(&run(MORE), &run(LESS))
}
