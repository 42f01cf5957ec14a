//! `top` on a real terminal: what it leaves behind, however it ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const STATUS: &str = r#"{"ok":{"version":1,"daemon":{"pid":1,"version":"0.1.0","started_at":0,
    "state":"/s","warnings":[]},"devices":[],"containers":[{"name":"team-a","origin":"config",
    "socket":"/s/attach.sock","processes":3,"damage":null,"devices":[]}]}}"#;

/// Something that answers as a daemon does, to whoever asks for the status.
fn answer(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let text = STATUS.replace('\n', "");
            let _ = writeln!(stream, "{text}");
        }
    });
}

fn top(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quota-daemon"));
    command
        .args(["top", "--state"])
        .arg(state)
        .env("LANG", "C.UTF-8")
        .env("TERM", "xterm");
    command
}

/// A program on a terminal of its own, and what it has written there.
struct Seen {
    child: Child,
    keys: File,
    text: Arc<Mutex<Vec<u8>>>,
}

impl Seen {
    fn start(mut command: Command) -> Self {
        let (mut outer, mut inner) = (-1, -1);
        let size = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the pointers are to what lives throughout the call, or NULL where that is allowed.
        let failed = unsafe {
            libc::openpty(
                &raw mut outer,
                &raw mut inner,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const size,
            )
        };
        assert_eq!(failed, 0);
        // SAFETY: both descriptors were just made, and belong to nobody else.
        let (outer, inner) = unsafe { (File::from_raw_fd(outer), OwnedFd::from_raw_fd(inner)) };
        command
            .stdin(Stdio::from(inner.try_clone().unwrap()))
            .stdout(Stdio::from(inner.try_clone().unwrap()))
            .stderr(Stdio::from(inner));
        // SAFETY: both calls are allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop(command);
        let text = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (outer.try_clone().unwrap(), Arc::clone(&text));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut some) {
                sink.lock().unwrap().extend(some.iter().take(n));
            }
        });
        Self {
            child,
            keys: outer,
            text,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn wait_for(&self, what: &str) {
        let begin = Instant::now();
        while !self.text().contains(what) {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no {what:?} in {:?}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "hung");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: the child was not waited for, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const OTHER_SCREEN: &str = "\x1b[?1049h";
const BACK: &str = "\x1b[?1049l";

#[test]
fn keys_and_signals_end_it_and_the_terminal_is_as_before() {
    let state = tempfile::tempdir().unwrap();
    answer(&state.path().join("control.sock"));
    for (signal, code) in [
        (None, Some(0)),
        (Some(libc::SIGTERM), Some(143)),
        (Some(libc::SIGHUP), Some(129)),
    ] {
        let mut seen = Seen::start(top(state.path()));
        seen.wait_for(OTHER_SCREEN);
        seen.wait_for("team-a");
        match signal {
            Some(signal) => seen.signal(signal),
            None => seen.keys.write_all(b"q").unwrap(),
        }
        assert_eq!(seen.end(), code, "{:?}", seen.text());
        seen.wait_for(BACK);
    }
}

#[test]
fn it_waits_for_a_daemon_that_comes() {
    let state = tempfile::tempdir().unwrap();
    let mut command = top(state.path());
    command.args(["--interval", "0.1"]);
    let mut seen = Seen::start(command);
    seen.wait_for("no daemon at");
    answer(&state.path().join("control.sock"));
    seen.wait_for("team-a");
    seen.keys.write_all(b"\x03").unwrap();
    assert_eq!(seen.end(), Some(0));
}

#[test]
fn off_a_terminal_it_says_what_to_do_instead() {
    let state = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = top(state.path())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (code, text) = run(&[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("top --once"), "{text}");
    let (code, text) = run(&["--once"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("control.sock"), "{text}");
    answer(&state.path().join("control.sock"));
    let (code, text) = run(&["--once", "--width", "60", "--interval", "0.1"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("team-a") && !text.contains('\x1b'), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 60),
        "{text}"
    );
}
