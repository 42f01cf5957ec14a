//! `quota-daemon cdi`: containers as devices, in the form that Docker, containerd, Podman and CRI-O read (Container Device
//! Interface).
//!
//! A device of ours is no device node. It is what a container needs to be limited, as mounts: the library, an
//! `/etc/ld.so.preload` that names it, and the directory of the container's socket. Mounts are there for every process of the
//! container, also for one that comes by `exec`, `su -`, `sshd` or with an empty environment; variables are not.
//!
//! `generate` writes a file for the containers of the configuration. A daemon with `[cdi] publish` keeps one for each
//! container that it serves, for as long as it serves it ([`publish`]).

pub mod edits;
mod empty;
pub mod generate;
pub mod keep;
pub mod kind;
pub mod list;
mod owner;
pub mod publish;
mod scan;
pub mod spec;
mod write;

use crate::exit::Stop;

pub use edits::Preload;
pub use kind::Kind;
pub use publish::Publisher;

/// Where container runtimes look, the directory that counts least first.
pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Which of its commands.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write the devices of the configured containers for container runtimes to read.
    Generate(generate::Args),
    /// List the devices that container runtimes find here, and what is wrong with them.
    List(list::Args),
}

/// Does what the command says.
///
/// # Errors
/// As the command's own.
pub fn run(args: &Args) -> Result<(), Stop> {
    match &args.command {
        Command::Generate(args) => generate::run(args),
        Command::List(args) => list::run(args),
    }
}
