//! A client that calls the driver as it is told, step by step: the program `steps`, which see for the language.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::account::Account;
use crate::client::{end, start};

/// A running `steps`. Dropping it kills it.
#[derive(Debug)]
pub struct Steps {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    dir: TempDir,
    watchdog: Duration,
}

/// What came of a step.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the function answered; `None` if the driver has no function of that name.
    pub code: Option<u32>,
    /// How often the driver's function of that name was called meanwhile.
    pub calls: u64,
    /// What it wrote into slots.
    pub out: Vec<u64>,
    /// The account behind it.
    account: String,
}

impl Answer {
    /// What the simulated devices held when the function had returned.
    ///
    /// # Panics
    /// Where the step asked for none.
    #[must_use]
    pub fn account(&self) -> Account {
        serde_json::from_str(&self.account).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Whether the function answered success.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Fails the test unless the function answered success.
    #[must_use]
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

impl Steps {
    pub(crate) fn new(command: &mut Command, watchdog: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(dir.path().join("stderr")).unwrap());
        let mut child = start(command);
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            dir,
            watchdog,
        }
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Carries out one step.
    ///
    /// # Panics
    /// The client has ended, or hangs.
    #[track_caller]
    pub fn step(&mut self, line: impl AsRef<str>) -> Answer {
        self.begin(line.as_ref());
        self.answer(line.as_ref())
    }

    /// A step whose account nobody looks at.
    #[track_caller]
    pub fn quiet(&mut self, line: impl AsRef<str>) -> Answer {
        self.step(format!("-{}", line.as_ref()))
    }

    #[track_caller]
    fn begin(&mut self, line: &str) {
        if let Err(error) = writeln!(self.stdin, "{line}") {
            self.fail(line, &error.to_string());
        }
    }

    #[track_caller]
    fn answer(&mut self, line: &str) -> Answer {
        if self.stdout.buffer().is_empty() && !self.readable() {
            self.fail(line, "no answer");
        }
        let mut text = String::new();
        match self.stdout.read_line(&mut text) {
            Ok(0) => self.fail(line, "it has ended"),
            Err(error) => self.fail(line, &error.to_string()),
            Ok(_) => {}
        }
        let (head, account) = text
            .trim_end()
            .split_once('\t')
            .unwrap_or((text.trim_end(), ""));
        let mut words = head.split(' ');
        let code = words.next().and_then(|code| code.parse().ok());
        let mut words = words.map(|word| word.parse().unwrap_or(0));
        Answer {
            code,
            calls: words.next().unwrap_or(0),
            out: words.collect(),
            account: account.into(),
        }
    }

    /// Waits until there is something to read, or the watchdog's time has passed.
    fn readable(&self) -> bool {
        let mut wanted = libc::pollfd {
            fd: self.stdout.get_ref().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let limit = libc::c_int::try_from(self.watchdog.as_millis()).unwrap();
        // SAFETY: one live descriptor and its record.
        unsafe { libc::poll(&raw mut wanted, 1, limit) > 0 }
    }

    #[track_caller]
    fn fail(&self, line: &str, what: &str) -> ! {
        panic!("step '{line}': {what}\n--- stderr\n{}", self.stderr());
    }

    /// What it or the shim has complained of.
    #[must_use]
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// A buffer of the client's as text, for [`Self::put`] of another.
    pub fn get(&mut self, buffer: u32) -> String {
        self.begin(&format!("-!get #{buffer}"));
        let mut text = String::new();
        self.stdout.read_line(&mut text).unwrap();
        text.split_whitespace().last().unwrap_or_default().into()
    }

    /// Fills a buffer of the client's.
    pub fn put(&mut self, buffer: u32, text: &str) {
        let _ = self.quiet(format!("!put #{buffer} {text}")).ok();
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
