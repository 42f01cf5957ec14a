//! What the GPU itself says each tenant used.
//!
//! The simulator keeps an account that the quota's library has no part in. It is read by a process of its own
//! (this program again, as `cargo xtask demo-account`), without the library preloaded: a line
//! in asks, a line out answers.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use libloading::os::unix::Library;
use serde::Deserialize;

use super::Gpu;

/// Where figures come from.
pub(super) enum Account {
    /// The simulator.
    Simulator(Reader),
    /// A real GPU keeps no such account: what counts is the work that the tenants got done.
    Tenants,
}

/// A process that reads the simulator's account.
pub(super) struct Reader {
    process: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

/// The account at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The GPU's clock.
    pub(super) clock_ns: u64,
    /// By tenant.
    pub(super) tenants: BTreeMap<String, Usage>,
}

/// What one tenant used, over all devices.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    /// GPU time since the simulation began.
    pub(super) busy_ns: u64,
    /// Bytes it holds, as it asked for them.
    pub(super) requested: u64,
    /// The most that it ever held.
    pub(super) peak_requested: u64,
}

impl Account {
    pub(super) fn open(gpu: &Gpu) -> Result<Self> {
        if matches!(gpu, Gpu::Real) {
            return Ok(Self::Tenants);
        }
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("demo-account")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        gpu.prepare(&mut command);
        let mut process = command
            .spawn()
            .context("cannot start the account's reader")?;
        let (Some(ask), Some(answer)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("the account's reader has no pipes");
        };
        Ok(Self::Simulator(Reader {
            process,
            ask,
            answer: BufReader::new(answer),
        }))
    }

    /// The account now; `None` where there is none.
    pub(super) fn read(&mut self) -> Result<Option<Snapshot>> {
        let Self::Simulator(reader) = self else {
            return Ok(None);
        };
        let mut line = String::new();
        writeln!(reader.ask).and_then(|()| reader.ask.flush())?;
        reader.answer.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the account's reader stopped");
        parse(&line).map(Some)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Deserialize)]
struct RawSnapshot {
    clock_ns: u64,
    devices: Vec<RawDevice>,
}

#[derive(Deserialize)]
struct RawDevice {
    tenants: Vec<RawTenant>,
}

#[derive(Deserialize)]
struct RawTenant {
    label: String,
    #[serde(flatten)]
    usage: Usage,
}

fn parse(line: &str) -> Result<Snapshot> {
    let raw: RawSnapshot = serde_json::from_str(line)
        .with_context(|| format!("the simulator's account is not as expected: {line}"))?;
    let mut snapshot = Snapshot {
        clock_ns: raw.clock_ns,
        ..Snapshot::default()
    };
    for tenant in raw.devices.into_iter().flat_map(|device| device.tenants) {
        let sum = snapshot.tenants.entry(tenant.label).or_default();
        sum.busy_ns += tenant.usage.busy_ns;
        sum.requested += tenant.usage.requested;
        sum.peak_requested += tenant.usage.peak_requested;
    }
    Ok(snapshot)
}

/// `int gpuSimSnapshot(char *json, size_t capacity)`: the bytes needed.
type SnapshotFn = unsafe extern "C" fn(*mut c_char, usize) -> c_int;

/// The reader process: answers every line on stdin with the account as a line of JSON.
///
/// # Errors
/// When the simulated driver cannot be opened or a pipe breaks.
pub fn serve() -> Result<()> {
    // SAFETY: the simulated driver's initialisers only set up its own state.
    let library = unsafe { Library::new("libcuda.so.1") }.context("no simulated driver")?;
    // SAFETY: the simulator documents this signature.
    let snapshot = unsafe { library.get::<SnapshotFn>(b"gpuSimSnapshot\0") }
        .context("this libcuda.so.1 is not the simulator's")?;
    let mut buffer = vec![0_u8; 1 << 16];
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        line?;
        let json = read(*snapshot, &mut buffer)?;
        writeln!(out, "{}", json.replace('\n', " "))?;
        out.flush()?;
    }
    Ok(())
}

fn read(snapshot: SnapshotFn, buffer: &mut Vec<u8>) -> Result<String> {
    loop {
        // SAFETY: the buffer is as long as is said.
        let needed = unsafe { snapshot(buffer.as_mut_ptr().cast::<c_char>(), buffer.len()) };
        let needed = usize::try_from(needed).context("the simulator gives no account")?;
        if needed < buffer.len() {
            let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(needed);
            let text = buffer.get(..end).unwrap_or_default();
            return Ok(String::from_utf8_lossy(text).into_owned());
        }
        buffer.resize(needed * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_on_two_devices_is_summed() {
        let line = r#"{"devices":[
            {"uuid":"GPU-1","total":9,"used":1,"peak":1,"busy_ns":5,"tenants":[
                {"label":"A","used":8,"peak":8,"requested":3,"peak_requested":4,"busy_ns":5}],"processes":[]},
            {"uuid":"GPU-2","total":9,"used":1,"peak":1,"busy_ns":2,"tenants":[
                {"label":"A","used":8,"peak":8,"requested":1,"peak_requested":1,"busy_ns":2}],"processes":[]}
            ],"clock_ns":77}"#;
        let snapshot = parse(line).unwrap();
        let usage = snapshot.tenants["A"];
        assert_eq!((snapshot.clock_ns, usage.busy_ns), (77, 7));
        assert_eq!((usage.requested, usage.peak_requested), (4, 5));
    }

    #[test]
    fn an_account_without_requested_bytes_is_an_error_not_a_zero() {
        let line = r#"{"devices":[{"tenants":[{"label":"A","busy_ns":5}]}],"clock_ns":1}"#;
        assert!(parse(line).is_err());
    }
}
