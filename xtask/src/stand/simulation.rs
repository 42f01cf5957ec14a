//! A simulation of a chore's own, and what its devices did for whom.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// A simulated machine; its file goes with it.
pub(crate) struct Simulation {
    libraries: PathBuf,
    file: PathBuf,
    devices: String,
    reader: Option<Reader>,
}

/// The process that reads the account (`cargo xtask demo-account`): a line in asks, a line out answers.
struct Reader {
    process: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

/// The account at one moment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Look {
    /// The simulation's clock.
    pub(crate) clock_ns: u64,
    devices: Vec<DeviceLook>,
}

#[derive(Clone, Debug, Deserialize)]
struct DeviceLook {
    busy_ns: u64,
    tenants: Vec<TenantLook>,
}

#[derive(Clone, Debug, Deserialize)]
struct TenantLook {
    label: String,
    busy_ns: u64,
}

impl Look {
    /// GPU time of everybody, by device.
    pub(crate) fn busy(&self) -> Vec<u64> {
        self.devices.iter().map(|device| device.busy_ns).collect()
    }

    /// GPU time of one tenant, by device.
    pub(crate) fn of(&self, label: &str) -> Vec<u64> {
        let of = |device: &DeviceLook| {
            let own = device.tenants.iter().filter(|tenant| tenant.label == label);
            own.map(|tenant| tenant.busy_ns).sum()
        };
        self.devices.iter().map(of).collect()
    }
}

impl Simulation {
    /// One of these devices, as `GPU_SIM_DEVICES` describes them. `name` is of this run's alone.
    pub(crate) fn new(dist: &Path, name: &str, devices: &str) -> Self {
        Self {
            libraries: dist.join("sim"),
            file: PathBuf::from(format!("/dev/shm/{name}.{}", std::process::id())),
            devices: devices.into(),
            reader: None,
        }
    }

    /// What a program needs to be on it, and nothing else of this environment.
    pub(crate) fn environment(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("LD_LIBRARY_PATH", self.libraries.display().to_string()),
            ("GPU_SIM", self.file.display().to_string()),
            ("GPU_SIM_DEVICES", self.devices.clone()),
        ])
    }

    /// Sets a program up to be on it.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env_clear().envs(self.environment());
    }

    /// The account now.
    pub(crate) fn look(&mut self) -> Result<Look> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.reader()?,
        };
        let reader = self.reader.insert(reader);
        let mut line = String::new();
        writeln!(reader.ask).and_then(|()| reader.ask.flush())?;
        reader.answer.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the account's reader stopped");
        serde_json::from_str(&line)
            .with_context(|| format!("the simulator's account is not as expected: {line}"))
    }

    fn reader(&self) -> Result<Reader> {
        let mut command = Command::new(std::env::current_exe()?);
        self.prepare(&mut command);
        command
            .arg("demo-account")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command
            .spawn()
            .context("cannot start the account's reader")?;
        let (Some(ask), Some(answer)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("the account's reader has no pipes");
        };
        Ok(Reader {
            process,
            ask,
            answer: BufReader::new(answer),
        })
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if let Some(mut reader) = self.reader.take() {
            let _ = reader.process.kill();
            let _ = reader.process.wait();
        }
        // It may never have been made.
        let _ = std::fs::remove_file(&self.file);
    }
}
