//! The recipes for Slurm and Kubernetes: the scripts do what they say beside a daemon, and the manifests mount what a
//! container needs.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use quota_tests::{Daemon, Sim, artefacts, workspace};

/// A script of the Slurm recipe, as Slurm runs it, beside this daemon.
fn slurm(daemon: &Daemon<'_>, script: &str, partition: &str) -> Output {
    Command::new(workspace().join("examples/slurm").join(script))
        .env_clear()
        .env("GPU_QUOTA_STATE", daemon.state())
        .env("GPU_QUOTA_SHIM", &artefacts().shim)
        .env(
            "GPU_QUOTA_SLURM",
            workspace().join("examples/slurm/slurm.conf.quotas"),
        )
        .env("GPU_QUOTA_BIN", artefacts().daemon.parent().unwrap())
        .env("SLURM_JOB_ID", "4711")
        .env("SLURM_JOB_PARTITION", partition)
        .output()
        .unwrap()
}

#[test]
fn a_slurm_job_has_the_quota_of_its_partition_from_prolog_to_epilog() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, "");
    let said = slurm(&daemon, "prolog.sh", "cpu");
    assert!(said.status.success(), "{said:?}");
    assert!(daemon.status().containers.is_empty(), "cpu has no quota");

    let said = slurm(&daemon, "prolog.sh", "gpu-small");
    assert!(said.status.success(), "{said:?}");
    let share = daemon.share("slurm-4711");
    assert_eq!(share.memory_limit_bytes, Some(10 << 30));

    // What the task's prolog prints is the task's environment.
    let said = slurm(&daemon, "task-prolog.sh", "gpu-small");
    let text = String::from_utf8(said.stdout).unwrap();
    let mut task = daemon.command_in("slurm-4711", &quota_tests::program("init"));
    for line in text.lines() {
        let (name, value) = line
            .strip_prefix("export ")
            .unwrap()
            .split_once('=')
            .unwrap();
        task = task.env(name, value);
    }
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(task.run().ok().number("total0"), 10 << 30);

    daemon.wait("the task's end", |daemon| {
        daemon.container("slurm-4711").processes == 0
    });
    for _ in 0..2 {
        let said = slurm(&daemon, "epilog.sh", "gpu-small");
        assert!(said.status.success(), "{said:?}");
        assert!(daemon.status().containers.is_empty());
    }
}

#[test]
fn every_script_may_be_run() {
    for script in ["prolog.sh", "task-prolog.sh", "epilog.sh"] {
        let file = workspace().join("examples/slurm").join(script);
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script}");
    }
}

/// By Python's YAML: Kubernetes reads no comment and no indentation of ours.
#[test]
fn the_manifests_mount_what_a_container_needs() {
    let program = r"
import sys, yaml
for file in sys.argv[1:]:
    for one in yaml.safe_load_all(open(file)):
        if one['kind'] == 'ConfigMap':
            yaml.safe_load(one['data']['config.yaml'])['sharing']['timeSlicing']['resources'][0]['replicas'] + 0
            continue
        where = {volume['name']: volume['hostPath']['path'] for volume in one['spec']['volumes']}
        for container in one['spec']['containers']:
            for mount in container['volumeMounts']:
                assert mount['readOnly'] is True
                print(one['metadata']['name'], where[mount['name']], mount['mountPath'])
";
    let folder = workspace().join("examples/kubernetes");
    let said = Command::new("python3")
        .args(["-c", program])
        .args([folder.join("pods.yaml"), folder.join("time-slicing.yaml")])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&said.stderr);
    if complaint.contains("No module named 'yaml'") {
        return println!("skipped: no python3-yaml");
    }
    assert!(said.status.success(), "{complaint}");
    let text = String::from_utf8(said.stdout).unwrap();
    let mut expected = String::new();
    for pod in ["team-a", "team-b"] {
        for (host, inside) in [
            (
                format!("/run/gpu-quota/containers/{pod}"),
                "/run/gpu-quota/container",
            ),
            (
                "/usr/lib/gpu-quota/libquota_shim.so".into(),
                "/usr/local/lib/gpu-quota/lib/x86_64-linux-gnu/libquota_shim.so",
            ),
            (
                "/run/gpu-quota/cdi/ld.so.preload".into(),
                "/etc/ld.so.preload",
            ),
        ] {
            expected.push_str(&format!("{pod} {host} {inside}\n"));
        }
    }
    assert_eq!(text, expected);
}
