//! What the library adds to the start of a program that uses no GPU.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::hooks::{Quartiles, Row};

/// Pairs of starts, one bare and one with the library.
const PAIRS: usize = 300;

/// Starts `/bin/true` bare and preloaded in turns.
pub(super) fn measure(dist: &Path) -> Result<Row> {
    let shim = dist.join("lib/libquota_shim.so");
    let (mut bare, mut hooked) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS + 5 {
        let times = if pair % 2 == 0 {
            let bare = start(None)?;
            (bare, start(Some(&shim))?)
        } else {
            let hooked = start(Some(&shim))?;
            (start(None)?, hooked)
        };
        if pair >= 5 {
            bare.push(times.0);
            hooked.push(times.1);
        }
    }
    let added: Vec<_> = hooked
        .iter()
        .zip(&bare)
        .map(|(hooked, bare)| hooked - bare)
        .collect();
    Ok(Row {
        row: "start".into(),
        threads: 1,
        turns: u32::try_from(added.len())?,
        bare: quartiles(bare),
        hooked: quartiles(hooked),
        added: quartiles(added),
    })
}

/// Nanoseconds from before the start to the end of one `/bin/true`.
fn start(preload: Option<&Path>) -> Result<f64> {
    let mut command = Command::new("/bin/true");
    command.env_clear().stdin(Stdio::null());
    if let Some(shim) = preload {
        command
            .env("LD_PRELOAD", shim)
            .env("GPU_QUOTA_MEMORY", "1GiB")
            .env("GPU_QUOTA_COMPUTE", "50%");
    }
    let begin = Instant::now();
    let status = command.status().context("cannot start /bin/true")?;
    let took = begin.elapsed();
    ensure!(status.success(), "/bin/true ended with {status}");
    Ok(took.as_secs_f64() * 1e9)
}

fn quartiles(mut values: Vec<f64>) -> Quartiles {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| {
        values
            .get((values.len().saturating_sub(1) * quarter + 2) / 4)
            .copied()
            .unwrap_or(f64::NAN)
    };
    Quartiles {
        p25: at(1),
        median: at(2),
        p75: at(3),
    }
}
