//! `cargo xtask dist`: builds the artefacts and puts them where every script looks for them.
//!
//! ```text
//! target/dist/lib/libquota_shim.so        the preloaded library
//! target/dist/bin/quota-daemon            the host side
//! target/dist/sim/libcuda.so.1            the simulated GPU (and libcuda.so beside it)
//! target/dist/sim/libnvidia-ml.so.1       its management library (and libnvidia-ml.so)
//! ```
//!
//! Cargo's own files of a release build go to `target/dist-build`, since a profile named `dist` would write into `target/dist`;
//! those of a build for tests go where `cargo test` has its own, which then builds nothing again.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::{elf, portable, workspace};

/// What to build.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Build for tests into target/dist-dev: quicker, with assertions.
    #[arg(long, conflicts_with = "portable")]
    pub dev: bool,
    /// Build against glibc 2.17 with the zig linker, so that containers of any age can load it.
    #[arg(long)]
    pub portable: bool,
    /// The library alone, for the other machine, into target/dist-aarch64.
    #[arg(long, value_name = "MACHINE", requires = "portable", value_parser = ["aarch64"])]
    pub target: Option<String>,
}

/// One file to install: as cargo names it, and as it is shipped.
struct Artefact {
    built: &'static str,
    shipped: &'static str,
    /// The name that programs which do not ask for a version use.
    link: Option<&'static str>,
}

const PACKAGES: [&str; 4] = ["shim", "quota-daemon", "gpu-sim-cuda", "gpu-sim-nvml"];

const ARTEFACTS: [Artefact; 4] = [
    Artefact {
        built: "libquota_shim.so",
        shipped: "lib/libquota_shim.so",
        link: None,
    },
    Artefact {
        built: "quota-daemon",
        shipped: "bin/quota-daemon",
        link: None,
    },
    Artefact {
        built: "libgpu_sim_cuda.so",
        shipped: "sim/libcuda.so.1",
        link: Some("sim/libcuda.so"),
    },
    Artefact {
        built: "libgpu_sim_nvml.so",
        shipped: "sim/libnvidia-ml.so.1",
        link: Some("sim/libnvidia-ml.so"),
    },
];

/// Builds, then prints the folder alone on stdout; what it is goes to stderr.
///
/// # Errors
/// When the build or the installation fails, or a portable library is not.
pub fn run(args: &Args) -> Result<()> {
    let folder = build(args)?;
    let floor = elf::glibc_floor(&folder.join("lib/libquota_shim.so"))?;
    eprintln!("libquota_shim.so needs glibc {floor} or newer");
    println!("{}", folder.display());
    Ok(())
}

/// Builds and installs the artefacts; returns their folder.
///
/// Two runs at once are safe: the second waits, and then finds everything done.
///
/// # Errors
/// As [`run`].
pub fn build(args: &Args) -> Result<PathBuf> {
    if let Some(machine) = &args.target {
        return library_for(machine);
    }
    let name = if args.dev { "dist-dev" } else { "dist" };
    let folder = workspace::target().join(name);
    let target_dir = target_dir(args);
    let began = SystemTime::now();
    let _lock = workspace::lock(&workspace::target().join(format!(".{name}.lock")))?;

    let mut cargo = if args.portable {
        portable::cargo(&target_dir, portable::TRIPLE)?
    } else {
        let mut cargo = workspace::cargo(&target_dir);
        cargo.arg("build");
        cargo
    };
    cargo.args(["--profile", profile(args)]);
    cargo.args(workspace::verbosity());
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    workspace::run(&mut cargo)?;

    let built = if args.portable {
        target_dir.join(portable::TRIPLE).join("dist")
    } else {
        built(args)
    };
    for artefact in &ARTEFACTS {
        install(
            &built.join(artefact.built),
            &folder.join(artefact.shipped),
            began,
        )?;
        if let Some(link) = artefact.link {
            link_beside(artefact.shipped, &folder.join(link))?;
        }
    }
    if args.portable {
        for artefact in &ARTEFACTS {
            portable::check_floor(&folder.join(artefact.shipped))?;
        }
    }
    Ok(folder)
}

/// Builds the portable library for another machine; returns the folder in which it is `lib/libquota_shim.so`.
fn library_for(machine: &str) -> Result<PathBuf> {
    let triple = format!("{machine}-unknown-linux-gnu");
    portable::check_target(&triple)?;
    let folder = workspace::target().join(format!("dist-{machine}"));
    let target_dir = target_dir(&Args::default());
    let began = SystemTime::now();
    let _lock = workspace::lock(&workspace::target().join(format!(".dist-{machine}.lock")))?;
    let mut cargo = portable::cargo(&target_dir, &triple)?;
    cargo.args(["--profile", "dist", "--package", "shim"]);
    cargo.args(workspace::verbosity());
    workspace::run(&mut cargo)?;
    let built = target_dir.join(triple).join("dist/libquota_shim.so");
    let shipped = folder.join("lib/libquota_shim.so");
    install(&built, &shipped, began)?;
    portable::check_floor(&shipped)?;
    Ok(folder)
}

/// Where cargo keeps its own files for this build. The portable one has a folder of its own there, and what runs while building is
/// the same for both.
#[must_use]
pub fn target_dir(args: &Args) -> PathBuf {
    if args.dev {
        return workspace::cargo_target();
    }
    workspace::target().join("dist-build")
}

/// The profile of this build.
#[must_use]
pub fn profile(args: &Args) -> &'static str {
    if args.dev { "dev" } else { "dist" }
}

/// Where a build for this machine puts its results.
#[must_use]
pub fn built(args: &Args) -> PathBuf {
    target_dir(args).join(if args.dev { "debug" } else { "dist" })
}

/// Copies `from` over `to` unless they are equal already. A reader of `to` sees the whole old
/// file or the whole new one, and a running program keeps the old one. Its time is that at which
/// the build `began`: sources that are newer are not in it.
fn install(from: &Path, to: &Path, began: SystemTime) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return date(to, began);
    }
    let folder = to.parent().context("an artefact has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let fresh = to.with_extension(format!("new.{}", std::process::id()));
    fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    date(&fresh, began)?;
    fs::rename(&fresh, to).with_context(|| format!("cannot replace {}", to.display()))
}

/// Sets the file's time. Opened for reading, since a program that runs cannot be opened for writing.
fn date(file: &Path, at: SystemTime) -> Result<()> {
    fs::File::open(file)
        .and_then(|file| file.set_modified(at))
        .with_context(|| format!("cannot set the time of {}", file.display()))
}

/// Makes `link` point to the file of the same folder that `shipped` names.
fn link_beside(shipped: &str, link: &Path) -> Result<()> {
    let file = Path::new(shipped)
        .file_name()
        .context("an artefact has a name")?;
    match symlink(file, link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other.with_context(|| format!("cannot make {}", link.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_installed_file_bears_the_time_at_which_its_build_began() {
        let folder = std::env::temp_dir().join(format!("install-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("built"), folder.join("lib/shipped"));
        fs::write(&from, "library").unwrap();
        let first = SystemTime::now() - Duration::from_secs(60);
        install(&from, &to, first).unwrap();
        let time = || fs::metadata(&to).unwrap().modified().unwrap();
        let new = time();
        // Equal bytes are not written again, and are as new all the same.
        install(&from, &to, first + Duration::from_secs(30)).unwrap();
        let again = time();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((new, again), (first, first + Duration::from_secs(30)));
    }
}
