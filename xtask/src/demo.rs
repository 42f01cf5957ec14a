//! `cargo demo`: two tenants on one GPU, watched.
//!
//! Each tenant is `examples/two_tenants`, started by `quota-daemon run` under its own quota: by variables alone, or in a container of a
//! daemon. They work alone, then both at once, and then try to take more memory than they may. What they got
//! is read from the GPU's own account, never from what the quota's library says.

mod account;
mod share;
mod stage;
mod table;
mod tenant;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use account::serve as serve_account;

use crate::demo::account::Account;
use crate::demo::stage::Stage;
use crate::demo::tenant::Plan;
use crate::stand::Daemon;
use crate::{dist, workspace};

/// How the demo runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Use the simulated GPU even where there is a real one.
    #[arg(long)]
    sim: bool,
    /// Use the release artefacts of `cargo xtask dist`, which take longer to build.
    #[arg(long)]
    release: bool,
    /// Use the artefacts in this folder instead of building them.
    #[arg(long, value_name = "FOLDER")]
    dist: Option<PathBuf>,
    /// Who holds the quotas.
    #[arg(long, value_enum, default_value_t = Through::Daemon)]
    through: Through,
    /// Seconds that each tenant works alone; both at once work twice as long.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
}

/// Who holds the quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Through {
    /// Variables of each tenant: its share is a cap, and what it gets beside the other one is not promised.
    Variables,
    /// `quota-daemon serve`, which gives each tenant what it asked beside the other one, too.
    Daemon,
}

const GIB: u64 = 1 << 30;

const PLANS: [Plan; 2] = [
    Plan {
        name: "A",
        compute: 30.0,
        memory: 2 * GIB,
    },
    Plan {
        name: "B",
        compute: 60.0,
        memory: 4 * GIB,
    },
];

/// Builds, runs the phases and prints the summary.
///
/// # Errors
/// When something cannot be built or started, and when a tenant got more than its quota.
pub fn run(args: &Args) -> Result<()> {
    let build = dist::Args {
        dev: !args.release,
        portable: false,
        target: None,
    };
    let folder = match &args.dist {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| format!("{}", folder.display()))?,
        None => {
            eprintln!(
                "building the library, quota-daemon and the simulated GPU (the first time that takes some minutes) ..."
            );
            dist::build(&build)?
        }
    };
    eprintln!("building the tenants' program ...");
    let tenant = build_tenant(&build)?;
    let built = Instant::now();

    let gpu = Gpu::find(args.sim, &folder, &tenant)?;
    let account = Account::open(&gpu)?;
    let daemon = match args.through {
        Through::Variables => None,
        Through::Daemon => Some(serve(&gpu, &folder)?),
    };
    let start = tenant::Start {
        gpu: &gpu,
        dist: &folder,
        program: &tenant,
        daemon: daemon.as_ref(),
    };
    let mut stage = Stage::open(&start, account, &PLANS)?;
    let length = Duration::from_secs(args.seconds);

    stage.work("A alone", &[0], length, true)?;
    stage.work("B alone", &[1], length, true)?;
    stage.work("both at once", &[0, 1], length * 2, daemon.is_some())?;
    stage.overrun("over quota")?;
    let outcome = stage.close()?;

    let summary = verdict::judge(&outcome);
    table::print_summary(&outcome, &summary, &gpu.describe(), built.elapsed());
    if !summary.holds() {
        bail!("a quota did not hold");
    }
    Ok(())
}

/// A daemon with a container for each tenant.
fn serve(gpu: &Gpu, dist: &Path) -> Result<Daemon> {
    let container = |plan: &Plan| {
        format!(
            "[[container]]\nname = '{}'\nmemory = {}\ncompute = '{}%'\n",
            plan.name, plan.memory, plan.compute
        )
    };
    let config: String = PLANS.iter().map(container).collect();
    Daemon::start(dist, &config, |command| gpu.prepare(command))
}

fn build_tenant(args: &dist::Args) -> Result<PathBuf> {
    let mut cargo = workspace::cargo(&dist::target_dir(args));
    cargo.args(["build", "--profile", dist::profile(args)]);
    cargo.args(workspace::verbosity());
    cargo.args(["--package", "quota-examples", "--bin", "tenant"]);
    workspace::run(&mut cargo)?;
    Ok(dist::built(args).join("tenant"))
}

/// Which GPU the tenants use.
enum Gpu {
    /// A simulation of this demo's own.
    Simulated {
        /// The folder of the simulated driver.
        libraries: PathBuf,
        /// The file that holds the simulation, removed at the end.
        state: PathBuf,
    },
    /// The machine's own.
    Real,
}

impl Gpu {
    fn find(simulate: bool, dist: &Path, tenant: &Path) -> Result<Self> {
        if !simulate && has_real_gpu(tenant)? {
            return Ok(Self::Real);
        }
        let state = PathBuf::from(format!("/dev/shm/quota-demo.{}", std::process::id()));
        Ok(Self::Simulated {
            libraries: dist.join("sim"),
            state,
        })
    }

    /// Sets what a program needs to use this GPU.
    fn prepare(&self, command: &mut Command) {
        command
            .env_remove("GPU_SIM_MODE")
            .env_remove("CUDA_VISIBLE_DEVICES");
        if let Self::Simulated { libraries, state } = self {
            command
                .env("LD_LIBRARY_PATH", libraries)
                .env("GPU_SIM", state)
                .env("GPU_SIM_DEVICES", "24GiB");
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Simulated { .. } => "simulated GPU".into(),
            Self::Real => "real GPU".into(),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if let Self::Simulated { state, .. } = self {
            // It may never have been made.
            let _ = std::fs::remove_file(state);
        }
    }
}

/// Whether the tenant program starts on this machine as it is.
fn has_real_gpu(tenant: &Path) -> Result<bool> {
    let status = Command::new(tenant)
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", tenant.display()))?;
    Ok(status.success())
}
