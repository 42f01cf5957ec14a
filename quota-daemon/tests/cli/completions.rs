//! The completion scripts, by the shells that they are for where those are installed.

use std::process::{Command, Stdio};

use crate::support::{daemon, out};

fn script(shell: &str) -> String {
    let output = daemon().args(["completions", shell]).output().unwrap();
    assert!(output.status.success(), "{shell}");
    out(&output)
}

/// What bash would offer after each of `lines`, which end where the cursor is.
fn offered_by_bash(lines: &[&[&str]]) -> Option<Vec<Vec<String>>> {
    let mut program = script("bash");
    for words in lines {
        let [.., before, current] = words else {
            panic!("a line has a command and a word: {words:?}");
        };
        let last = words.len() - 1;
        let list: String = words.iter().map(|word| format!(" '{word}'")).collect();
        program.push_str(&format!(
            "\nCOMP_WORDS=({list}); COMP_CWORD={last}; COMPREPLY=()\n\
             _quota__daemon quota-daemon '{current}' '{before}'; echo \"${{COMPREPLY[*]}}\"\n"
        ));
    }
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", &program])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = out(&output);
    let offers = text
        .lines()
        .map(|line| line.split(' ').map(String::from).collect());
    Some(offers.collect())
}

#[test]
fn bash_completes_behind_each_command() {
    let lines: [&[&str]; 7] = [
        &["quota-daemon", ""],
        &["quota-daemon", "run", "--"],
        &["quota-daemon", "doctor", "--"],
        &["quota-daemon", "completions", ""],
        &["quota-daemon", "set", "--"],
        &["quota-daemon", "check-config", "--"],
        &["quota-daemon", "serve", "--log-format", ""],
    ];
    let Some(offered) = offered_by_bash(&lines) else {
        eprintln!("skipped: no bash");
        return;
    };
    let wanted = [
        &["run", "doctor", "serve", "status", "why", "man"][..],
        &[
            "--memory",
            "--compute",
            "--group",
            "--device",
            "--container",
        ],
        &["--json"],
        &["zsh", "fish"],
        &["--memory", "--weight", "--create", "--state"],
        &["--json", "--config"],
        &["auto", "journald"],
    ];
    assert_eq!(offered.len(), wanted.len(), "{offered:?}");
    for (offered, wanted) in offered.iter().zip(wanted) {
        for word in wanted {
            assert!(offered.iter().any(|one| one == word), "{word}: {offered:?}");
        }
        assert!(!offered.iter().any(|one| one == "probe"), "{offered:?}");
    }
}

#[test]
fn every_shell_gets_the_commands_and_none_that_is_hidden() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        assert!(
            script.contains("doctor") && script.contains("compute"),
            "{shell}"
        );
        assert!(!script.contains("probe"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let mut child = daemon()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
