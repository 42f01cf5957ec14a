//! C client programs: `programs/NAME.c`, compiled once and kept by the hash of what they are made of.
//!
//! A line `// link: FLAGS` in the source adds flags for the linker, `// cflags: FLAGS` for the
//! compiler. `-lcuda` links against the simulator's libcuda, as a program links the driver's.
//! `// needs: NAME...` links shared objects of `programs/`, in that order.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::artefacts::{artefacts, workspace};

/// The executable made of `programs/NAME.c`.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    compile(name, false)
}

/// The shared object made of `programs/NAME.c`.
#[must_use]
pub fn library(name: &str) -> PathBuf {
    compile(name, true)
}

fn compile(name: &str, shared: bool) -> PathBuf {
    let dir = workspace().join("tests/programs");
    let source = dir.join(format!("{name}.c"));
    let text = fs::read_to_string(&source)
        .unwrap_or_else(|e| panic!("no test program {}: {e}", source.display()));
    let mut flags: Vec<String> = [
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ]
    .map(String::from)
    .to_vec();
    if shared {
        flags.extend(["-shared", "-fPIC"].map(String::from));
    }
    flags.extend(words(&text, "// cflags:"));
    let mut link: Vec<String> = words(&text, "// needs:")
        .iter()
        .map(|need| library(need).display().to_string())
        .collect();
    link.extend(words(&text, "// link:"));

    let mut hash = DefaultHasher::new();
    (&text, headers(&dir), &flags, &link).hash(&mut hash);
    if link.iter().any(|flag| flag == "-lcuda") {
        artefacts().sim.hash(&mut hash);
    }
    let out_dir = workspace().join("target/test-programs");
    fs::create_dir_all(&out_dir).unwrap();
    let suffix = if shared { ".so" } else { "" };
    let out = out_dir.join(format!("{name}-{:016x}{suffix}", hash.finish()));
    if out.exists() {
        return out;
    }

    // Made under another name and moved into place: other tests may want it at the same time.
    let part = tempfile::Builder::new()
        .prefix(name)
        .tempfile_in(&out_dir)
        .unwrap();
    let part = part.into_temp_path();
    let mut gcc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    gcc.args(&flags)
        .arg("-I")
        .arg(&dir)
        .arg("-o")
        .arg(&part)
        .arg(&source);
    if link.iter().any(|flag| flag == "-lcuda") {
        gcc.arg("-L").arg(&artefacts().sim);
    }
    let made = gcc
        .arg("-Wl,--no-as-needed")
        .args(&link)
        .output()
        .expect("a C compiler (cc) is needed for the test programs");
    assert!(
        made.status.success(),
        "{}:\n{}",
        source.display(),
        String::from_utf8_lossy(&made.stderr)
    );
    fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).unwrap();
    part.persist(&out).unwrap();
    out
}

/// The words behind every line that starts with `mark`.
fn words(text: &str, mark: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix(mark))
        .flat_map(str::split_whitespace)
        .map(String::from)
        .collect()
}

fn headers(dir: &Path) -> Vec<String> {
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "h"))
        .collect();
    names.sort();
    names
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}
