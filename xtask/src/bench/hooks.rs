//! What a hook adds, over the null driver: runs `benches/hooks` once for each configuration.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{starts, table};
use crate::groups::OwnGroup;
use crate::{dist, workspace};

/// How to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Measure the portable library, as it ships.
    #[arg(long)]
    portable: bool,
    /// Only rows whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// The middle half of the samples, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Quartiles {
    pub(super) p25: f64,
    pub(super) median: f64,
    pub(super) p75: f64,
}

/// One measured row, as `hook-bench` prints it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) row: String,
    pub(super) threads: u32,
    pub(super) turns: u32,
    pub(super) bare: Quartiles,
    pub(super) hooked: Quartiles,
    pub(super) added: Quartiles,
}

/// A run of `hook-bench`: which of its rows, under which quota, with how many other processes of
/// the container, and what the rows are called in the table.
struct Setup {
    row: &'static str,
    memory: &'static str,
    compute: &'static str,
    others: usize,
    suffix: &'static str,
}

const SETUPS: [Setup; 9] = [
    Setup {
        row: "launch",
        memory: "20GiB",
        compute: "none",
        others: 0,
        suffix: "",
    },
    Setup {
        row: "launch",
        memory: "20GiB",
        compute: "50%",
        others: 0,
        suffix: "-limited",
    },
    Setup {
        row: "graph",
        memory: "20GiB",
        compute: "50%",
        others: 0,
        suffix: "-limited",
    },
    Setup {
        row: "alloc",
        memory: "20GiB",
        compute: "none",
        others: 0,
        suffix: "",
    },
    Setup {
        row: "alloc-live",
        memory: "20GiB",
        compute: "none",
        others: 0,
        suffix: "",
    },
    Setup {
        row: "alloc",
        memory: "20GiB",
        compute: "none",
        others: 31,
        suffix: "-32-processes",
    },
    Setup {
        row: "alloc",
        memory: "20GiB",
        compute: "none",
        others: 127,
        suffix: "-128-processes",
    },
    Setup {
        row: "info",
        memory: "20GiB",
        compute: "none",
        others: 0,
        suffix: "",
    },
    Setup {
        row: "lookup",
        memory: "20GiB",
        compute: "none",
        others: 0,
        suffix: "",
    },
];

/// Everything that was measured, as written to `target/bench/hooks.json`.
#[derive(Serialize)]
struct Record {
    version: u32,
    unit: &'static str,
    library: PathBuf,
    rows: Vec<table::Judged>,
}

/// Builds, measures every row, prints the table and writes the JSON.
///
/// # Errors
/// When something cannot be built or measured.
pub(super) fn run(args: &Args) -> Result<()> {
    let build = dist::Args {
        dev: false,
        portable: args.portable,
        target: None,
    };
    eprintln!("building ...");
    let folder = dist::build(&build)?;
    let program = build_program()?;
    let mut rows = Vec::new();
    for setup in &SETUPS {
        let name = format!("{}{}", setup.row, setup.suffix);
        if name.contains(&args.only) {
            eprintln!("measuring {name} ...");
            rows.extend(measure(setup, &folder, &program).with_context(|| name)?);
        }
    }
    if "start".contains(&args.only) {
        eprintln!("measuring start ...");
        rows.push(starts::measure(&folder)?);
    }
    let judged = table::judge(rows);
    table::print(&judged);

    let path = workspace::target().join("bench/hooks.json");
    std::fs::create_dir_all(workspace::target().join("bench"))?;
    let record = Record {
        version: 1,
        unit: "nanoseconds per call",
        library: PathBuf::from("target/dist/lib/libquota_shim.so"),
        rows: judged,
    };
    std::fs::write(&path, serde_json::to_string_pretty(&record)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("written to {}", path.display());
    Ok(())
}

fn build_program() -> Result<PathBuf> {
    let target_dir = dist::target_dir(&dist::Args::default());
    let mut cargo = workspace::cargo(&target_dir);
    cargo.args([
        "build",
        "--quiet",
        "--profile",
        "dist",
        "--package",
        "quota-benches",
    ]);
    workspace::run(&mut cargo)?;
    Ok(target_dir.join("dist/hook-bench"))
}

fn measure(setup: &Setup, dist: &Path, program: &Path) -> Result<Vec<Row>> {
    let group = OwnGroup::new(&format!("bench-{}{}", setup.row, setup.suffix));
    let others = Others::start(setup, dist, program, group.name())?;
    let output = command(setup, dist, program, group.name())
        .arg(setup.row)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start hook-bench")?;
    drop(others);
    ensure!(
        output.status.success(),
        "hook-bench ended with {}",
        output.status
    );
    let mut rows = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let mut row: Row = serde_json::from_str(line).with_context(|| line.to_string())?;
        row.row.push_str(setup.suffix);
        rows.push(row);
    }
    Ok(rows)
}

fn command(setup: &Setup, dist: &Path, program: &Path, group: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LD_PRELOAD", dist.join("lib/libquota_shim.so"))
        .env("LD_LIBRARY_PATH", dist.join("sim"))
        .env("GPU_SIM_MODE", "null")
        .env("GPU_QUOTA_GROUP", group)
        .env("GPU_QUOTA_MEMORY", setup.memory)
        .env("GPU_QUOTA_CONTEXT", "0");
    if setup.compute != "none" {
        command.env("GPU_QUOTA_COMPUTE", setup.compute);
    }
    command
}

/// The other processes of a busy container; they end when this is dropped.
struct Others(Vec<Child>);

impl Others {
    fn start(setup: &Setup, dist: &Path, program: &Path, group: &str) -> Result<Self> {
        let mut others = Self(Vec::new());
        for _ in 0..setup.others {
            let mut child = command(setup, dist, program, group)
                .arg("attach")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("cannot start hook-bench attach")?;
            let output = child.stdout.take().context("no stdout")?;
            others.0.push(child);
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line)?;
            if line.trim() != "ready" {
                bail!("hook-bench attach did not attach");
            }
        }
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
