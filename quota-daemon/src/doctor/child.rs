//! Runs a child that may hang or crash, and says what came of it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// A driver that is not up after this long will not come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a child did.
pub(super) struct Ended {
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// `None`: it hung and was ended.
    pub(super) status: Option<ExitStatus>,
}

impl Ended {
    pub(super) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words, with what it said on stderr.
    pub(super) fn describe(&self) -> String {
        let end = match self.status {
            None => format!("hung for {} s", PATIENCE.as_secs()),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "ended".into(),
            },
        };
        match self.stderr.trim() {
            "" => end,
            said => format!("{end}: {said}"),
        }
    }
}

/// Runs `command` to its end, or ends it when it hangs.
pub(super) fn run(command: &mut Command) -> std::io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    Ok(Ended {
        stdout: stdout(),
        stderr: stderr(),
        status,
    })
}

/// Reads a pipe on a thread of its own; the closure gives what was read. It does not wait for a
/// grandchild that keeps the pipe open.
fn drain(pipe: Option<impl Read + Send + 'static>) -> impl FnOnce() -> String {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    move || {
        let bytes = receiver
            .recv_timeout(Duration::from_secs(1))
            .unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_end_are_told() {
        let mut command = Command::new("/bin/sh");
        let ended = run(command.args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(ended.describe(), "ended with 3: err");
        let ended = run(Command::new("/bin/sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(ended.describe(), "was ended by signal 9");
    }
}
