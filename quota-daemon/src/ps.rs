//! `quota-daemon ps`: the registered processes.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::api::Request;
use crate::client::{Client, Where};
use crate::exit::Stop;
use crate::output::{json, print};
use crate::report::{Process, Status};
use crate::status::label;
use crate::table::{Cell, Screen, Table, numbers, words};
use crate::units::{size, time};

/// Which processes, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Of this container alone.
    #[arg(value_name = "CONTAINER")]
    container: Option<String>,

    /// Print the list as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

/// Asks the daemon and prints what it says.
///
/// # Errors
/// There is no daemon, or no such container.
pub fn run(args: &Args) -> Result<(), Stop> {
    let mut client = Client::connect(&args.place.socket())?;
    let container = args.container.clone();
    let processes: Vec<Process> = client.ask(&Request::Processes { container })?;
    if args.json {
        return Ok(json(&processes)?);
    }
    if processes.is_empty() {
        return Ok(print("no process is registered\n")?);
    }
    let status = client.ask(&Request::Status)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    Ok(print(
        &table(&processes, &status, now).show(Screen::stdout()),
    )?)
}

fn table(processes: &[Process], status: &Status, now: u64) -> Table {
    let mut table = Table::new([
        words("CONTAINER"),
        numbers("PID"),
        numbers("INSIDE").spare(1),
        numbers("UID").spare(2),
        words("PROGRAM"),
        numbers("SINCE").spare(3),
        words("GPU"),
        numbers("LEDGER"),
        numbers("NVML"),
    ]);
    for process in processes {
        let since = now.saturating_sub(process.since);
        let head: [Cell; 6] = [
            (&process.container).into(),
            process.pid.to_string().into(),
            process.pid_inside.to_string().into(),
            process.uid.to_string().into(),
            (&process.program).into(),
            time(since.saturating_mul(1_000_000_000)).into(),
        ];
        let mut head = head.to_vec();
        if process.memory.is_empty() {
            table.row([&head[..], &["-".into()]].concat());
        }
        for held in &process.memory {
            let nvml = held.nvml_bytes.map_or("?".into(), size);
            let tail = [
                label(status, held.uuid).into(),
                size(held.ledger_bytes).into(),
                nvml.into(),
            ];
            table.row([&head[..], &tail].concat());
            head.fill(Cell::default());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uuid;
    use crate::report::Held;

    #[test]
    fn a_process_is_a_row_for_each_device() {
        let held = |byte, nvml_bytes| Held {
            uuid: Uuid([byte; 16]),
            ledger_bytes: 1 << 30,
            nvml_bytes,
        };
        let process = |program: &str, memory| Process {
            container: "a".into(),
            pid: 4711,
            pid_inside: 7,
            uid: 1000,
            program: program.into(),
            since: 100,
            memory,
        };
        let processes = [
            process("python3", vec![held(7, Some(5 << 28)), held(9, None)]),
            process("x\ny", Vec::new()),
        ];
        let text = table(&processes, &crate::status::tests::status(), 105).show(Screen::PLAIN);
        let expected = "\
CONTAINER   PID  INSIDE   UID  PROGRAM  SINCE  GPU       LEDGER      NVML
a          4711       7  1000  python3    5 s  0          1 GiB  1.25 GiB
                                               09090909   1 GiB         ?
a          4711       7  1000  x?y        5 s  -
";
        assert_eq!(text, expected);
    }
}
