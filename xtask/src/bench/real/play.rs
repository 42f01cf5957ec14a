//! Runs one cell: all processes begin together, and after a while what each container has had is read once a second from the
//! simulator's account.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::cell::{Cell, Tenant};
use super::{Args, ContainerGot, Got, Latency};
use crate::groups::OwnGroup;
use crate::stand::{Daemon, Look, Pulse, Simulation};
use crate::workspace;

/// A process at work. Dropping it ends it.
struct Worker {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `workload` says at its end, as far as it is looked at.
#[derive(Deserialize)]
struct Done {
    latencies: u64,
    p50_us: u64,
    p95_us: u64,
    most_us: u64,
}

/// Runs it.
pub(super) fn play(cell: &Cell, args: &Args, dist: &Path, program: &Path) -> Result<Got> {
    let devices = vec!["24GiB"; cell.devices].join(",");
    let mut simulation = Simulation::new(dist, "quota-bench-real", &devices);
    let names: Vec<_> = ('a'..='z')
        .take(cell.tenants.len())
        .map(String::from)
        .collect();
    let daemon = if cell.daemon {
        let config = config(cell, &names, &args.daemon);
        let prepare = |command: &mut Command| simulation.prepare(command);
        Some(Daemon::start(dist, &config, prepare)?)
    } else {
        None
    };
    let group = OwnGroup::new("bench-real");
    let length = cell.warm_up.as_secs_f64() + f64::from(args.seconds);
    let start = |name: &str, tenant: &Tenant| {
        let mut command = Command::new(program);
        simulation.prepare(&mut command);
        command
            .args([format!("{length}"), tenant.work.clone(), "go".into()])
            .env("LD_PRELOAD", dist.join("lib/libquota_shim.so"))
            .env("GPU_SIM_TENANT", name)
            .env(
                "QUOTA_TEST_KERNELS",
                workspace::root().join("gpu-sim/kernels.ptx"),
            );
        match &daemon {
            Some(daemon) => command.env("GPU_QUOTA_SOCKET", daemon.socket(name)),
            None => command
                .env("GPU_QUOTA_GROUP", group.name())
                .env("GPU_QUOTA_COMPUTE", format!("{}%", tenant.asked)),
        };
        begin(&mut command)
    };
    let mut workers = Vec::new();
    for (name, tenant) in names.iter().zip(&cell.tenants) {
        for _ in 0..tenant.processes {
            if tenant.work != "idle" {
                workers.push((name.as_str(), start(name, tenant)?));
            }
        }
    }
    for (_, worker) in &mut workers {
        drop(worker.process.stdin.take().map(|mut input| writeln!(input)));
    }
    let began = Instant::now();
    let mut looks = Vec::new();
    let pulse = Pulse::begin();
    for second in 0..=args.seconds {
        let due = cell.warm_up + Duration::from_secs(second.into());
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        looks.push(simulation.look()?);
    }
    let stalled = pulse.stalled();
    let mut latencies = Vec::new();
    for (name, worker) in &mut workers {
        if cell
            .tenants
            .iter()
            .any(|tenant| tenant.work.starts_with("burst"))
        {
            let mut line = String::new();
            worker.output.read_line(&mut line)?;
            let done: Done = serde_json::from_str(&line).with_context(|| line.clone())?;
            if done.latencies > 0 {
                latencies.push((*name, done));
            }
        }
    }
    let containers = names.iter().zip(&cell.tenants).map(|(name, tenant)| {
        let latency = latencies.iter().find(|(of, _)| of == name);
        ContainerGot {
            name: name.clone(),
            asked_percent: tenant.asked,
            got_percent: whole(&looks, |look| look.of(name)),
            worst_window_percent: worst(&looks, name, tenant.asked),
            latency: latency.map(|(_, done)| Latency {
                count: done.latencies,
                p50_us: done.p50_us,
                p95_us: done.p95_us,
                most_us: done.most_us,
            }),
        }
    });
    Ok(Got {
        version: 1,
        cell: cell.name.clone(),
        by: "real",
        seconds: args.seconds,
        containers: containers.collect(),
        stalled_ms: stalled.map(|stalled| u64::try_from(stalled.as_millis()).unwrap_or(u64::MAX)),
        busy_percent: whole(&looks, Look::busy),
    })
}

/// The configuration of the daemon.
fn config(cell: &Cell, names: &[String], daemon: &str) -> String {
    let each = names.iter().zip(&cell.tenants).map(|(name, tenant)| {
        let rule = &tenant.rule;
        format!("[[container]]\nname = '{name}'\nmemory = 'none'\n{rule}\n")
    });
    let each: String = each.collect();
    format!("[daemon]\ncontext = 0\n{daemon}\n{each}")
}

/// Starts a process, and waits until it is ready to begin.
fn begin(command: &mut Command) -> Result<Worker> {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the program workload")?;
    let output = process.stdout.take().context("no stdout")?;
    let mut worker = Worker {
        process,
        output: BufReader::new(output),
    };
    let mut line = String::new();
    worker.output.read_line(&mut line)?;
    ensure!(line == "ready\n", "the program workload did not begin");
    Ok(worker)
}

/// Per cent of each device's time between two looks.
#[expect(clippy::cast_precision_loss, reason = "seconds, in nanoseconds")]
fn percent(from: &Look, to: &Look, of: &impl Fn(&Look) -> Vec<u64>) -> Vec<f64> {
    let elapsed = to.clock_ns.saturating_sub(from.clock_ns).max(1) as f64;
    let pairs = of(from).into_iter().zip(of(to));
    pairs
        .map(|(before, after)| after.saturating_sub(before) as f64 * 100.0 / elapsed)
        .collect()
}

fn whole(looks: &[Look], of: impl Fn(&Look) -> Vec<u64>) -> Vec<f64> {
    match (looks.first(), looks.last()) {
        (Some(first), Some(last)) => percent(first, last, &of),
        _ => Vec::new(),
    }
}

fn worst(looks: &[Look], name: &str, asked: f64) -> f64 {
    let windows = looks.iter().zip(looks.iter().skip(1));
    let each = windows.flat_map(|(from, to)| percent(from, to, &|look: &Look| look.of(name)));
    let off = |percent: &f64| (percent - asked).abs();
    each.max_by(|left, right| off(left).total_cmp(&off(right)))
        .unwrap_or(0.0)
}
