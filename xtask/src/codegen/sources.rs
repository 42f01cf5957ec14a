//! Where the headers come from: pinned public wheels, downloaded with pip into `target/codegen/` and unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// A pinned wheel.
#[derive(Clone, Copy)]
pub(super) struct Wheel {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

impl std::fmt::Display for Wheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The newest `cuda.h` and its companions: every symbol of it wins over an older header's.
pub(super) const CUDA: Wheel = Wheel {
    name: "nvidia-cuda-runtime",
    version: "13.5.37",
};
/// `cudaProfiler.h` is packaged apart from the rest.
pub(super) const PROFILER: Wheel = Wheel {
    name: "nvidia-cuda-profiler-api",
    version: "13.5.25",
};
pub(super) const NVML: Wheel = Wheel {
    name: "nvidia-nvml-dev",
    version: "13.5.37",
};
const LIBCLANG: Wheel = Wheel {
    name: "libclang",
    version: "18.1.1",
};

/// The unpacked wheels.
pub(super) struct Sources {
    root: PathBuf,
}

impl Sources {
    /// Downloads what is missing and points bindgen at libclang.
    pub(super) fn fetch(target: &Path) -> Result<Self> {
        let sources = Self {
            root: target.join("codegen"),
        };
        for wheel in [CUDA, PROFILER, NVML, LIBCLANG] {
            sources.unpack(wheel)?;
        }
        Ok(sources)
    }

    fn unpack(&self, wheel: Wheel) -> Result<()> {
        let home = self.home(wheel);
        if home.join("complete").exists() {
            return Ok(());
        }
        let wheels = home.join("wheel");
        fs::create_dir_all(&wheels)?;
        let spec = format!("{}=={}", wheel.name, wheel.version);
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
        ]);
        pip.arg(&wheels).arg(&spec);
        let status = pip
            .status()
            .context("cannot start python3; `codegen` needs python3 with pip")?;
        ensure!(status.success(), "pip could not download {spec}");
        let file = fs::read_dir(&wheels)?
            .next()
            .with_context(|| format!("pip left no file for {spec}"))??;
        let status = Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([file.path(), home.clone()])
            .status()
            .context("cannot start python3")?;
        ensure!(status.success(), "cannot unpack {}", file.path().display());
        fs::write(home.join("complete"), "")?;
        Ok(())
    }

    fn home(&self, wheel: Wheel) -> PathBuf {
        self.root.join(format!("{}-{}", wheel.name, wheel.version))
    }

    /// The folder with the wheel's headers.
    pub(super) fn include(&self, wheel: Wheel) -> Result<PathBuf> {
        find(&self.home(wheel), "include")
    }

    /// The folder with `libclang.so`.
    pub(super) fn libclang(&self) -> Result<PathBuf> {
        find(&self.home(LIBCLANG), "native")
    }

    /// A scratch folder below `target/codegen/`.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// The folder called `name` somewhere below `root`: the wheels of different years nest it differently.
fn find(root: &Path, name: &str) -> Result<PathBuf> {
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            if path.file_name().is_some_and(|file| file == name) {
                return Ok(path);
            }
            open.push(path);
        }
    }
    anyhow::bail!("no folder `{name}` below {}", root.display())
}
