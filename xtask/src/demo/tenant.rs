//! One tenant process: started under its quota, told what to do, listened to.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Gpu;
use crate::groups::OwnGroup;
use crate::stand::Daemon;

/// What a tenant may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Its name, in tables and in the account.
    pub(super) name: &'static str,
    /// Its share of GPU time in percent.
    pub(super) compute: f64,
    /// Its memory in bytes.
    pub(super) memory: u64,
}

/// What a tenant says; `tenant.rs` of the example documents the lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Line {
    /// CUDA is initialised.
    Ready {
        /// The device's name.
        device: String,
        /// Its memory, as the tenant is shown it.
        total: u64,
    },
    /// Still at it.
    Progress(Done),
    /// A command is carried out.
    Done(Done),
    /// An allocation over the quota was tried.
    Attempt(Attempt),
}

/// What a tenant has done since it started, in its own words.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Done {
    /// Bytes that it holds.
    pub(super) held: u64,
    /// Allocations refused.
    pub(super) refused: u64,
    /// Kernels launched.
    pub(super) launches: u64,
    /// GPU time of those, by calibration.
    pub(super) work_ns: u64,
}

/// An allocation that the quota must refuse.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attempt {
    /// The driver's function.
    pub(super) call: String,
    /// How much was asked.
    pub(super) bytes: u64,
    /// What it answered.
    pub(super) code: u32,
}

/// What arrives from a tenant's reader thread.
pub(super) enum Message {
    /// A line of its output.
    Line(Line),
    /// Its output has ended, or makes no sense: the reason.
    End(String),
}

/// A running tenant. Dropping it ends the process.
pub(super) struct Tenant {
    process: Child,
    commands: ChildStdin,
    /// Dropped after the process has ended.
    _group: OwnGroup,
}

/// How tenants are started.
pub(super) struct Start<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) dist: &'a Path,
    /// What a tenant runs.
    pub(super) program: &'a Path,
    /// Who holds the quotas; without one each tenant's variables do.
    pub(super) daemon: Option<&'a Daemon>,
}

impl Tenant {
    /// Starts the program under `plan`; what it says arrives at `messages` with `index`.
    pub(super) fn start(
        start: &Start<'_>,
        plan: &Plan,
        index: usize,
        messages: Sender<(usize, Message)>,
    ) -> Result<Self> {
        let group = OwnGroup::new(&format!("demo-{}", plan.name));
        let mut command = Command::new(start.dist.join("bin/quota-daemon"));
        start.gpu.prepare(&mut command);
        command.arg("run");
        match start.daemon {
            Some(daemon) => command
                .args(["--container", plan.name, "--state"])
                .arg(daemon.state()),
            None => command
                .args(["--memory", &plan.memory.to_string()])
                .args(["--compute", &format!("{}%", plan.compute)])
                .args(["--group", group.name()]),
        };
        command
            .arg("--")
            .arg(start.program)
            .env("GPU_SIM_TENANT", plan.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for variable in [
            "GPU_QUOTA_GROUP",
            "GPU_QUOTA_CONTEXT",
            "GPU_QUOTA_SHIM",
            "LD_PRELOAD",
        ] {
            command.env_remove(variable);
        }
        let mut process = command.spawn().context("cannot start quota-daemon")?;
        let commands = process.stdin.take().context("the tenant has no stdin")?;
        let output = process.stdout.take().context("the tenant has no stdout")?;
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let message = match line {
                    Ok(line) => match serde_json::from_str(&line) {
                        Ok(line) => Message::Line(line),
                        Err(error) => Message::End(format!("said {line:?}: {error}")),
                    },
                    Err(error) => Message::End(error.to_string()),
                };
                if messages.send((index, message)).is_err() {
                    return;
                }
            }
            // The receiver is gone once the demo is over.
            let _ = messages.send((index, Message::End("ended".into())));
        });
        Ok(Self {
            process,
            commands,
            _group: group,
        })
    }

    /// Gives the tenant a command.
    pub(super) fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}")
            .and_then(|()| self.commands.flush())
            .context("a tenant no longer listens")
    }

    /// Lets the tenant end by itself; says whether it ended well.
    pub(super) fn quit(mut self) -> Result<bool> {
        self.tell("quit")?;
        Ok(self.process.wait()?.success())
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
