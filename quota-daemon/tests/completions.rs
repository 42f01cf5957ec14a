//! The completion scripts, by the shells that they are for where those are installed.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::process::{Command, Stdio};

fn script(shell: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_quota-daemon"))
        .args(["completions", shell])
        .output()
        .unwrap();
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash would offer after each of `lines`, which end where the cursor is.
fn offered_by_bash(lines: &[&[&str]]) -> Option<Vec<Vec<String>>> {
    let mut program = script("bash");
    for words in lines {
        let last = words.len() - 1;
        let list: String = words.iter().map(|word| format!(" '{word}'")).collect();
        let (current, before) = (words[last], words[last - 1]);
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
    let text = String::from_utf8(output.stdout).unwrap();
    let offers = text
        .lines()
        .map(|line| line.split(' ').map(String::from).collect());
    Some(offers.collect())
}

#[test]
fn bash_completes_behind_each_command() {
    let lines: [&[&str]; 4] = [
        &["quota-daemon", ""],
        &["quota-daemon", "run", "--"],
        &["quota-daemon", "doctor", "--"],
        &["quota-daemon", "completions", ""],
    ];
    let Some(offered) = offered_by_bash(&lines) else {
        eprintln!("skipped: no bash");
        return;
    };
    for (line, (wanted, offered)) in lines.iter().zip(
        [
            &["run", "doctor"][..],
            &["--memory", "--compute", "--group", "--device"],
            &["--json"],
            &["zsh", "fish"],
        ]
        .iter()
        .zip(offered),
    ) {
        for word in *wanted {
            assert!(
                offered.iter().any(|one| one == word),
                "{line:?}: {offered:?}"
            );
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
    let mut child = Command::new(env!("CARGO_BIN_EXE_quota-daemon"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
