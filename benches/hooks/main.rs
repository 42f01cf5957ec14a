//! What a hook adds to a driver call, in nanoseconds, measured inside one process.
//!
//! `hook-bench ROW` runs with the library preloaded, over the simulator's null driver, and
//! prints lines of JSON. `hook-bench attach` joins the group, holds a little memory, says so, and waits
//! for the end of stdin: one of the many processes of a busy container. `cargo xtask bench hooks`
//! runs every row and makes the table.

mod driver;
mod measure;
mod rows;

use std::io::Read;
use std::process::ExitCode;

use driver::Driver;
use measure::Effort;

fn main() -> ExitCode {
    let row = std::env::args().nth(1).unwrap_or_default();
    match run(&row) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hook-bench {row}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(row: &str) -> Result<(), String> {
    let driver = Driver::open()?;
    if !driver.is_hooked(c"cuInit")? {
        return Err("libquota_shim.so is not preloaded: there is nothing to measure".into());
    }
    let effort = Effort {
        rounds: 51,
        calls: 2000,
    };
    match row {
        "launch" => rows::launch(&driver, effort),
        "graph" => rows::graph(&driver, effort),
        "alloc" => rows::alloc(
            &driver,
            Effort {
                rounds: 31,
                calls: 1000,
            },
        ),
        "alloc-live" => rows::alloc_live(
            &driver,
            Effort {
                rounds: 31,
                calls: 1000,
            },
        ),
        "info" => rows::info(&driver, effort),
        "lookup" => rows::lookup(&driver, effort),
        "attach" => attach(&driver),
        _ => Err("rows are launch, graph, alloc, alloc-live, info, lookup and attach".into()),
    }
}

fn attach(driver: &Driver) -> Result<(), String> {
    rows::hold(driver)?;
    println!("ready");
    let mut nothing = Vec::new();
    std::io::stdin()
        .read_to_end(&mut nothing)
        .map(drop)
        .map_err(|error| error.to_string())
}
