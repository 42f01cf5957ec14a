//! The recorded look-ups of real clients: `data/clients/` (see its README).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use crate::artefacts::workspace;

/// One thing that a client asked of the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// `cuGetProcAddress` with a base name, a CUDA version, and flags.
    ProcAddress(String, u32, u64),
    /// `dlsym` of an exported name.
    Dlsym(String),
}

/// Every recorded list: its file name and what it holds, in the recorded order.
#[must_use]
pub fn recorded_lists() -> Vec<(String, Vec<Lookup>)> {
    let dir = workspace().join("tests/data/clients");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut lists = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        let list: Vec<Lookup> = if name.ends_with(".lookups.tsv") {
            text.lines().map(|line| proc_address(&name, line)).collect()
        } else if name.ends_with(".dlsym.txt") {
            text.lines()
                .map(|line| Lookup::Dlsym(line.into()))
                .collect()
        } else {
            continue;
        };
        assert!(!list.is_empty(), "{name} is empty");
        lists.push((name, list));
    }
    lists
}

fn proc_address(file: &str, line: &str) -> Lookup {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, version, flags] = fields[..] else {
        panic!("{file}: not NAME, VERSION, FLAGS: {line:?}");
    };
    Lookup::ProcAddress(
        name.into(),
        version.parse().unwrap(),
        flags.parse().unwrap(),
    )
}

/// The look-ups of all lists, each once, in the form that `programs/replay.c` reads.
#[must_use]
pub fn write_queries(lists: &[(String, Vec<Lookup>)]) -> String {
    let all: BTreeSet<&Lookup> = lists.iter().flat_map(|(_, list)| list).collect();
    let mut text = String::new();
    for lookup in all {
        match lookup {
            Lookup::ProcAddress(name, version, flags) => {
                writeln!(text, "proc\t{name}\t{version}\t{flags}").unwrap();
            }
            Lookup::Dlsym(name) => writeln!(text, "dlsym\t{name}").unwrap(),
        }
    }
    text
}

/// What `programs/replay.c` printed bare and under the shim, held against each other.
#[derive(Debug, Default)]
pub struct Replay {
    /// How many answers were compared.
    pub answers: usize,
    /// How many of them point to the shim's function instead of the driver's.
    pub hooked: usize,
    /// Bare and shimmed lines that do not agree.
    pub differing: Vec<(String, String)>,
}

impl Replay {
    /// Compares line by line. The last field says which library a function lies in: only there may
    /// the two differ.
    #[must_use]
    pub fn compare(bare: &str, shimmed: &str) -> Self {
        let mut replay = Self::default();
        let mut with = shimmed.lines();
        for without in bare.lines() {
            let with = with.next().unwrap_or("nothing");
            let (answer, home) = without.rsplit_once('\t').unwrap_or((without, ""));
            let (shim_answer, shim_home) = with.rsplit_once('\t').unwrap_or((with, ""));
            // The first line says which forms of cuGetProcAddress there are.
            replay.answers += usize::from(!without.starts_with("forms"));
            let hooked = home == "driver" && shim_home == "other";
            replay.hooked += usize::from(hooked);
            if answer != shim_answer || (home != shim_home && !hooked) {
                replay.differing.push((without.into(), with.into()));
            }
        }
        for extra in with {
            replay.differing.push(("nothing".into(), extra.into()));
        }
        replay
    }
}

/// NVIDIA's own driver libraries that `replay/fetch-driver.sh` put under `target/`: branch and
/// directory. None is missing where `GPU_QUOTA_TEST_REAL=required`.
#[must_use]
pub fn real_drivers() -> Vec<(&'static str, PathBuf)> {
    let required = std::env::var_os("GPU_QUOTA_TEST_REAL").is_some();
    let mut found = Vec::new();
    for branch in ["535", "550"] {
        let dir = workspace().join("target/real-driver").join(branch);
        if dir.join("libcuda.so.1").exists() {
            found.push((branch, dir));
        } else {
            assert!(!required, "{} holds no libcuda.so.1", dir.display());
            println!("skipped: no driver library {branch}; tests/replay/fetch-driver.sh gets it");
        }
    }
    found
}
