//! `quota-daemon man`: the manual pages, made from the command line itself.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use crate::completions::shown;
use crate::exit::Stop;
use crate::output::print;

/// Which pages, and where to.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The page of this command, instead of the one of all; of `cdi generate` as well.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write all pages into this directory, instead of one to stdout.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Writes the pages of `command`.
///
/// # Errors
/// There is no such command, or a page cannot be written.
pub fn run(args: &Args, command: &Command) -> Result<(), Stop> {
    let root = shown(command);
    if let Some(folder) = &args.dir {
        return Ok(write_all(root, folder)?);
    }
    let mut page = root;
    for name in &args.command {
        let title = format!(
            "{}-{name}",
            page.get_display_name().unwrap_or(page.get_name())
        );
        let found = page.find_subcommand(name).cloned();
        let found = found.ok_or_else(|| {
            Stop::NotFound(format!("there is no command {}", args.command.join(" ")))
        })?;
        page = found.display_name(title);
    }
    let mut bytes = Vec::new();
    Man::new(page)
        .render(&mut bytes)
        .context("the page cannot be made")?;
    Ok(print(&String::from_utf8_lossy(&bytes))?)
}

fn write_all(root: Command, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(root, folder))
        .with_context(|| format!("cannot write to {}", folder.display()))
}
