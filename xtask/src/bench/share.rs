//! `cargo xtask bench share`: asked against got, in the model in virtual time.
//!
//! The model is a program of its own, because it links the limiter and the daemon, and this must link neither. It is built as
//! tests are, with the crates optimised on which its speed depends: a release build of everything that the daemon needs takes
//! longer than the whole grid.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::real;
use crate::workspace;

/// Behind this line of the document are the tables.
const TABLES: &str = "<!-- below: cargo xtask bench share --doc -->";

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only cells whose names contain this, such as `pair-weights/20us+20us/10+90`.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// How containers are kept to their shares: turns, slices, blocks, wall, bare.
    #[arg(long, default_value = "turns,slices,blocks,wall")]
    schemes: String,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds from there on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// A parameter of GPU or host that is another than usual, as `slice=2ms`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Run some cells in real time too, on the simulated GPU, and print them beside the model's.
    #[arg(long)]
    real: bool,
    /// With --real: the whole grid, which takes an hour and more.
    #[arg(long, requires = "real")]
    full: bool,
    /// With --real: seconds that are measured of each cell.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// With --real: use the artefacts in this folder instead of building them.
    #[arg(long, value_name = "FOLDER", requires = "real")]
    dist: Option<PathBuf>,
    /// Print the tables that docs/benchmarks-share.md holds.
    #[arg(long)]
    markdown: bool,
    /// Write these tables into docs/benchmarks-share.md, in place of those that are there.
    #[arg(long, conflicts_with = "real")]
    doc: bool,
    /// Print the worst second, events and waits too.
    #[arg(long)]
    verbose: bool,
}

/// Builds the model, runs it, and leaves `target/bench/share.json`.
///
/// # Errors
/// When the model cannot be built or a cell cannot be run. A missed goal is shown, and is no error.
pub(super) fn run(args: &Args) -> Result<()> {
    let folder = workspace::target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if args.real {
        return real::beside(&real::Beside {
            full: args.full,
            only: args.only.as_deref(),
            scheme: args.schemes.split(',').next().unwrap_or_default(),
            seed: args.seed,
            seconds: args.seconds,
            dist: args.dist.as_deref(),
        });
    }
    let file = folder.join("share.json");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command
        .current_dir(workspace::root())
        .args(["run", "--quiet", "--package", "gpu-model", "--"])
        .args(["--schemes", &args.schemes])
        .args(["--seed", &args.seed.to_string()])
        .args(["--seeds", &args.seeds.to_string()])
        .arg("--json")
        .arg(&file);
    if let Some(only) = &args.only {
        command.args(["--only", only]);
    }
    for parameter in &args.set {
        command.args(["--set", parameter]);
    }
    let markdown = args.markdown || args.doc;
    for (flag, given) in [("--markdown", markdown), ("--verbose", args.verbose)] {
        if given {
            command.arg(flag);
        }
    }
    if args.doc {
        command.stdout(Stdio::piped());
    }
    let output = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("cannot start {}", cargo.display()))?;
    ensure!(
        output.status.success(),
        "the model ended with {}",
        output.status
    );
    if args.doc {
        write_into_doc(&String::from_utf8(output.stdout)?)?;
    }
    eprintln!("written to {}", file.display());
    Ok(())
}

/// Puts tables in place of those that the document has.
fn write_into_doc(tables: &str) -> Result<()> {
    let path = workspace::root().join("docs/benchmarks-share.md");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = replaced(&text, tables)
        .with_context(|| format!("{} has no line {TABLES:?}", path.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// All up to the line behind which the tables are, and then these.
fn replaced(text: &str, tables: &str) -> Option<String> {
    let (before, _) = text.split_once(TABLES)?;
    Some(format!("{before}{TABLES}\n\n{}\n", tables.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_the_place_of_those_before() {
        let text = format!("# Shares\n\n{TABLES}\n\nold\n");
        let new = replaced(&text, "| new |\n\n").unwrap();
        assert_eq!(new, format!("# Shares\n\n{TABLES}\n\n| new |\n"));
        assert_eq!(replaced("# Shares\n", ""), None);
    }
}
