//! A tenant: a greedy CUDA program that always wants all of the GPU's time and, when told so, more memory
//! than it may have. It knows nothing of quotas; `cargo demo` runs two of them under two.
//!
//! It reads commands, one a line, on stdin:
//!
//! ```text
//! hold BYTES    allocate or free until BYTES are held
//! work MILLIS   keep the GPU busy that long
//! overrun       fill the memory up, then try every way to get more
//! quit
//! ```
//!
//! and writes what happens, one JSON object a line, on stdout.

mod driver;
mod gpu;
mod memory;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpu::Gpu;
use memory::Memory;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenant: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the tenant has done so far.
struct Tenant {
    gpu: Gpu,
    memory: Memory,
    /// What this GPU takes for one iteration of the kernel.
    ns_per_iteration: f64,
    launches: u64,
    /// GPU time of the work launched, by the calibration.
    work_ns: u64,
}

fn serve() -> Result<(), String> {
    let mut gpu = Gpu::open()?;
    let (name, total) = gpu.describe()?;
    let ns_per_iteration = gpu.calibrate()?;
    say(&format!(
        r#"{{"event":"ready","device":{name:?},"total":{total},"ns_per_iteration":{ns_per_iteration}}}"#
    ))?;
    let memory = Memory::default();
    let mut tenant = Tenant {
        gpu,
        memory,
        ns_per_iteration,
        launches: 0,
        work_ns: 0,
    };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("hold"), Some(bytes)) => tenant.memory.hold(&tenant.gpu, number(bytes)?)?,
            (Some("work"), Some(millis)) => tenant.work(number(millis)?)?,
            (Some("overrun"), None) => tenant.overrun(total)?,
            (Some("quit"), None) => break,
            _ => return Err(format!("no such command: {line}")),
        }
        tenant.report("done")?;
    }
    Ok(())
}

impl Tenant {
    /// Launches without pause for `millis`: kernels of 100 µs to 2 ms, as a mixture of layers is.
    fn work(&mut self, millis: usize) -> Result<(), String> {
        const MICROS: [u32; 5] = [100, 250, 500, 1000, 2000];
        let end = Instant::now() + Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let mut next_report = Instant::now();
        for micros in MICROS.into_iter().cycle() {
            let now = Instant::now();
            if now >= end {
                break;
            }
            if now >= next_report {
                self.report("progress")?;
                next_report = now + Duration::from_millis(200);
            }
            let iterations = iterations(micros, self.ns_per_iteration);
            self.gpu.work(iterations)?;
            self.launches += 1;
            self.work_ns += u64::from(micros) * 1000;
        }
        self.gpu.drain()
    }

    fn overrun(&mut self, total: usize) -> Result<(), String> {
        let mut attempts = vec![self.memory.fill(&self.gpu)?];
        self.report("progress")?;
        attempts.extend(self.memory.overrun(&self.gpu, total)?);
        for attempt in attempts {
            say(&format!(
                r#"{{"event":"attempt","call":{:?},"bytes":{},"code":{}}}"#,
                attempt.call, attempt.bytes, attempt.code
            ))?;
        }
        Ok(())
    }

    fn report(&self, event: &str) -> Result<(), String> {
        say(&format!(
            r#"{{"event":{event:?},"held":{},"refused":{},"leaked":{},"launches":{},"work_ns":{}}}"#,
            self.memory.held(),
            self.memory.refused,
            self.memory.leaked,
            self.launches,
            self.work_ns
        ))
    }
}

/// How many iterations take `micros`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few million at most, and rounding does not matter"
)]
fn iterations(micros: u32, ns_per_iteration: f64) -> u64 {
    (f64::from(micros) * 1000.0 / ns_per_iteration) as u64
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}
