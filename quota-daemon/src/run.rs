//! `quota-daemon run`: a program under a quota, with no daemon anywhere, or in a container of one.
//!
//! The command sets variables and then **becomes** the program. So the program keeps this process's pid, its
//! terminal and its signals, and its end is seen by the caller as it was; a shell shows
//! 128+n for one that a signal ended. Nothing waits beside it.

mod daemon;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use quota_abi::settings::{Refusal, Settings};

use crate::environment::Environment;
use crate::exit::Stop;
use crate::shim;
use crate::sweep::sweep;
use crate::variables::{self, Unknown};

/// The quota and the program.
///
/// A quota's flags do not take their values from variables: those are read as the library reads them, and a refusal names
/// what the person wrote.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device memory: 4GiB, 512MiB, 1.5g, bytes, or none; per device 0=4GiB,GPU-<uuid>=8GiB [env: GPU_QUOTA_MEMORY].
    #[arg(long, short, value_name = "SIZE")]
    memory: Option<String>,

    /// GPU time: 30%, 30 or 0.3, or none; per device 0=30%,1=60% [env: GPU_QUOTA_COMPUTE].
    #[arg(long, short, value_name = "SHARE")]
    compute: Option<String>,

    /// Programs of one group share one quota. Without it every run is a group of its own [env: GPU_QUOTA_GROUP].
    #[arg(long, short, value_name = "NAME")]
    group: Option<String>,

    /// What one process's context is counted as; 0 does not count it [env: GPU_QUOTA_CONTEXT].
    #[arg(long, value_name = "SIZE")]
    context: Option<String>,

    /// The devices that the program sees, as CUDA_VISIBLE_DEVICES names them: 0,1 or GPU-<uuid>.
    #[arg(long, short, value_name = "LIST")]
    device: Option<String>,

    /// The library to preload.
    #[arg(long, value_name = "PATH", env = shim::VARIABLE)]
    shim: Option<PathBuf>,

    #[command(flatten)]
    with: daemon::Flags,

    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    program: Vec<OsString>,
}

impl Args {
    /// The flags that stand for a variable, with what was given.
    fn flags(&self) -> [(&'static str, &'static str, Option<&str>); 5] {
        [
            ("--memory", "GPU_QUOTA_MEMORY", self.memory.as_deref()),
            ("--compute", "GPU_QUOTA_COMPUTE", self.compute.as_deref()),
            ("--group", "GPU_QUOTA_GROUP", self.group.as_deref()),
            ("--context", "GPU_QUOTA_CONTEXT", self.context.as_deref()),
            ("--device", "CUDA_VISIBLE_DEVICES", self.device.as_deref()),
        ]
    }

    /// This process's variables, and what the flags make of them.
    fn environment(&self) -> Environment {
        let mut environment = Environment::current();
        for (_, variable, value) in self.flags() {
            environment.set(variable, value);
        }
        environment
    }

    /// The flag that was given for a variable.
    fn flag(&self, wanted: &str) -> Option<&'static str> {
        let mut flags = self.flags().into_iter();
        flags.find_map(|(flag, variable, value)| {
            (variable == wanted && value.is_some()).then_some(flag)
        })
    }
}

/// Becomes the program; returns only when that fails.
///
/// # Errors
/// Before anything is started: a bad value, nothing to enforce, no library, no such program.
pub fn run(args: &Args) -> Result<(), Stop> {
    let settings = check(args)?;
    let shim = shim::find(args.shim.as_deref())?;
    let (name, rest) = args
        .program
        .split_first()
        .context("the program's name is missing")?;
    let mut command = Command::new(name);
    command.args(rest).env(
        "LD_PRELOAD",
        preload(&shim, std::env::var_os("LD_PRELOAD").as_deref()),
    );
    for (_, variable, value) in args.flags() {
        if let Some(value) = value {
            command.env(variable, value);
        }
    }
    if args.with.asked() {
        let socket = args.with.socket(args, &args.environment())?;
        command.env("GPU_QUOTA_SOCKET", socket);
    } else {
        sweep(Path::new("/dev/shm"));
        let group = settings.group.map_or_else(random_group, Ok)?;
        command.env("GPU_QUOTA_GROUP", group);
    }
    if args.with.daemon {
        // They could only lower it, and would hold it down when it is raised.
        for variable in daemon::HELD {
            command.env_remove(variable);
        }
    }
    Err(cannot_start(name, &command.exec()))
}

/// Refuses at once what the library would refuse at the program's `cuInit`, in the same words; but what came by a flag is
/// called by the flag's name.
fn check(args: &Args) -> Result<Settings, Stop> {
    let environment = args.environment();
    let settings = environment.settings().map_err(|refusal| {
        let variable = match args.flag(&refusal.variable) {
            Some(flag) => flag.into(),
            None => refusal.variable.clone(),
        };
        Stop::Usage(
            Refusal {
                variable,
                ..refusal
            }
            .to_string(),
        )
    })?;
    for Unknown { name, meant } in variables::unknown(environment.names()) {
        let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"));
        eprintln!("quota-daemon: {name} is no variable of ours and does nothing{meant}");
    }
    let limits = !settings.memory.is_empty() || !settings.compute.is_empty();
    if !limits && !args.with.asked() {
        return Err(Stop::Usage(
            "nothing to enforce: give --memory 4GiB, --compute 30%, or both".into(),
        ));
    }
    Ok(settings)
}

/// The library first: the first definition of a symbol wins, and another preloaded library keeps its place after it.
fn preload(shim: &Path, existing: Option<&OsStr>) -> OsString {
    let mut list = OsString::from(shim);
    if let Some(existing) = existing.filter(|text| !text.is_empty()) {
        list.push(":");
        list.push(existing);
    }
    list
}

/// A name that no other run has.
fn random_group() -> Result<String, Stop> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom for a random group; name one with --group")?;
    Ok(format!("run-{:016x}", u64::from_ne_bytes(bytes)))
}

fn cannot_start(name: &OsStr, error: &std::io::Error) -> Stop {
    let code = if error.kind() == ErrorKind::NotFound {
        127
    } else {
        126
    };
    Stop::Program {
        code,
        text: format!("cannot run {}: {error}", name.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_before_what_was_preloaded() {
        let shim = Path::new("/q/libquota_shim.so");
        assert_eq!(preload(shim, None), "/q/libquota_shim.so");
        assert_eq!(preload(shim, Some(OsStr::new(""))), "/q/libquota_shim.so");
        assert_eq!(
            preload(shim, Some(OsStr::new("/a.so:/b.so"))),
            "/q/libquota_shim.so:/a.so:/b.so"
        );
    }

    #[test]
    fn two_runs_are_two_groups() {
        let (a, b) = (random_group().unwrap(), random_group().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), "run-".len() + 16);
    }

    #[test]
    fn a_missing_program_ends_as_in_a_shell() {
        let missing = std::io::Error::from(ErrorKind::NotFound);
        assert_eq!(cannot_start(OsStr::new("x"), &missing).code(), 127);
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(cannot_start(OsStr::new("x"), &denied).code(), 126);
    }
}
