//! `run` in containers of a daemon.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::serving::{Daemon, wait};
use crate::support::{Scratch, err, out};

#[test]
fn a_run_of_its_own_is_seen_while_it_lasts() {
    let (place, scratch) = (Daemon::start(), Scratch::new("own"));
    let mut command = place.command(&["run", "--daemon", "--memory", "1GiB", "--weight", "5"]);
    command.arg("--shim").arg(&scratch.library);
    command.args(["--", "sh", "-c", "env; echo pid=$$; read line"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    for line in stdout.lines().map(Result::unwrap) {
        lines.push(line);
        if lines.last().unwrap().starts_with("pid=") {
            break;
        }
    }
    let socket = lines
        .iter()
        .find(|line| line.starts_with("GPU_QUOTA_SOCKET="));
    let socket = PathBuf::from(&socket.unwrap()["GPU_QUOTA_SOCKET=".len()..]);
    assert!(socket.starts_with(place.state()), "{}", socket.display());
    for gone in ["GPU_QUOTA_MEMORY=", "GPU_QUOTA_GROUP="] {
        assert!(!lines.iter().any(|line| line.starts_with(gone)), "{gone}");
    }
    let processes = place.processes();
    assert_eq!(processes[0]["pid"], child.id());
    let name = processes[0]["container"].as_str().unwrap().to_owned();
    assert!(name.starts_with("run-"), "{name}");
    let container = place
        .containers()
        .into_iter()
        .find(|one| one["name"] == *name);
    assert_eq!(container.unwrap()["origin"], "run");
    // Its input ends, and with it the program.
    drop(child.stdin.take());
    child.wait().unwrap();
    wait("the process is forgotten", || {
        place.processes() == serde_json::json!([])
    });
    wait("the container goes", || {
        !place.containers().iter().any(|one| one["name"] == *name)
    });
}

#[test]
fn a_declared_container_is_joined() {
    let (place, scratch) = (Daemon::start(), Scratch::new("join"));
    let run = |flags: &[&str]| {
        let mut command = place.command(&["run", "--shim"]);
        command
            .arg(&scratch.library)
            .args(flags)
            .args(["--", "env"]);
        command.output().unwrap()
    };
    let output = run(&["--container", "a", "--memory", "1GiB"]);
    assert!(output.status.success(), "{}", err(&output));
    let socket = place.state().join("containers/a/attach.sock");
    let line = format!("GPU_QUOTA_SOCKET={}\n", socket.display());
    assert!(out(&output).contains(&line), "{}", out(&output));
    assert!(out(&output).contains("GPU_QUOTA_MEMORY=1GiB\n"));
    assert!(!out(&output).contains("GPU_QUOTA_GROUP="));
    for (flags, code, told) in [
        (&["--container", "b"][..], 3, "there is no container b"),
        (&["--container", "../a"], 2, "--container \"../a\" may have"),
        (&["--container", "a", "--daemon"], 2, "cannot be used with"),
        (
            &["--container", "a", "--group", "g"],
            2,
            "cannot be used with",
        ),
        (&["--weight", "5"], 2, "--daemon"),
        (&["--daemon", "--compute", "30%"], 2, "--memory none"),
        (
            &["--daemon", "--memory", "0=1GiB"],
            2,
            "takes one value with --daemon",
        ),
        (&["--daemon", "--memory", "much"], 2, "--memory=\"much\""),
    ] {
        let output = run(flags);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{flags:?}: {}",
            err(&output)
        );
        assert!(err(&output).contains(told), "{}", err(&output));
        assert!(out(&output).is_empty());
    }
}

#[test]
fn a_daemon_that_is_away_is_4_and_the_program_does_not_start() {
    let scratch = Scratch::new("away");
    let mut place = Daemon::start();
    place.child.kill().unwrap();
    place.child.wait().unwrap();
    for flags in [&["--container", "a"][..], &["--daemon", "--memory", "1g"]] {
        let mut command = place.command(&["run", "--shim"]);
        command.arg(&scratch.library).args(flags);
        let output = command.args(["--", "echo", "started"]).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", err(&output));
        assert!(
            err(&output).contains("quota-daemon serve"),
            "{}",
            err(&output)
        );
        assert!(out(&output).is_empty());
    }
}
