//! `cargo xtask deb`: the Debian package, from the artefacts that `cargo xtask dist` has made.
//!
//! It is put together from a folder by `dpkg-deb`, which every Debian machine has; `cargo deb` would have to be built first, for
//! longer than the whole package takes, and the one thing that it adds, the list of needed libraries, is read off the files here.

mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::elf::{self, GlibcVersion};
use crate::workspace;

/// What to package.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// The folder of the artefacts, instead of target/dist. Those of `cargo xtask dist --portable` are right for every
    /// Debian and Ubuntu; others for systems that are as new as this one.
    #[arg(long, value_name = "DIR")]
    dist: Option<PathBuf>,
    /// Where the package is put, instead of target/deb.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Debian's name of a machine, and that of its folder of libraries.
struct Machine {
    debian: &'static str,
    multiarch: &'static str,
}

const X86_64: Machine = Machine {
    debian: "amd64",
    multiarch: "x86_64-linux-gnu",
};
const AARCH64: Machine = Machine {
    debian: "arm64",
    multiarch: "aarch64-linux-gnu",
};

/// Builds the package, and prints its path alone on stdout.
///
/// # Errors
/// The artefacts are not there, or `dpkg-deb` refuses.
pub fn run(args: &Args) -> Result<()> {
    println!("{}", build(args)?.display());
    Ok(())
}

/// The same, without a word.
///
/// # Errors
/// As [`run`].
pub fn build(args: &Args) -> Result<PathBuf> {
    let made = || workspace::target().join("dist");
    let dist = args.dist.clone().unwrap_or_else(made);
    let library = dist.join("lib/libquota_shim.so");
    let daemon = dist.join("bin/quota-daemon");
    for file in [&library, &daemon] {
        if !file.exists() {
            bail!(
                "there is no {}: run `cargo xtask dist --portable` first",
                file.display()
            );
        }
    }
    let machine = machine(&library)?;
    let elsewhere = || workspace::target().join("deb");
    let output = args.output.clone().unwrap_or_else(elsewhere);
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;

    let staging = tempfile::tempdir().context("no folder to put the package together in")?;
    let root = staging.path().join("root");
    stage::fill(&root, &library, &daemon, &machine)?;
    let version = env!("CARGO_PKG_VERSION");
    let control = fs::read_to_string(stage::source("debian/control.in"))?
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", machine.debian)
        .replace("@SIZE@", &kibibytes(&root)?.to_string())
        .replace("@DEPENDS@", &depends(&[&library, &daemon])?);
    stage::add_control(&root, &control)?;

    let package = output.join(format!("gpu-quota_{version}_{}.deb", machine.debian));
    workspace::run(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&root, &package]),
    )
    .context("the package is made by dpkg-deb (Debian: apt install dpkg)")?;
    Ok(package)
}

/// What the library was built for, by its ELF header.
fn machine(library: &Path) -> Result<Machine> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    match bytes.get(18..20) {
        Some([62, 0]) => Ok(X86_64),
        Some([183, 0]) => Ok(AARCH64),
        _ => bail!("{} is for no machine that is known here", library.display()),
    }
}

/// The packages that have what the files need.
fn depends(files: &[&PathBuf]) -> Result<String> {
    let mut floor = GlibcVersion::default();
    let mut unwinder = false;
    for file in files {
        floor = floor.max(elf::glibc_floor(file)?);
        let report = elf::report(file)?;
        unwinder |= report.needed.iter().any(|name| name == "libgcc_s.so.1");
    }
    let unwinder = if unwinder { ", libgcc-s1" } else { "" };
    Ok(format!("libc6 (>= {floor}){unwinder}"))
}

/// What the files of a folder weigh.
fn kibibytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        sum += if kind.is_dir() {
            kibibytes(&entry.path())?
        } else if kind.is_file() {
            entry.metadata()?.len().div_ceil(1024)
        } else {
            0
        };
    }
    Ok(sum)
}
