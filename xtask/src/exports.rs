//! `cargo xtask exports`: what the linked library promises to the programs that it is loaded into.
//!
//! A name too many catches calls that were meant for another library; a library that it needs and a container lacks stops
//! every program from starting; so the file that ships is checked, not the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::elf::{self, Report};
use crate::{portable, stale, workspace};

/// Which library to check.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// The library to check; without it, the one that `cargo xtask dist` has made.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Hold it to the oldest glibc, as `cargo xtask dist --portable` builds it.
    #[arg(long)]
    portable: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// What the library is measured against.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Every name that must be exported, and no other.
    pub exports: BTreeSet<String>,
    /// The newest glibc version allowed; `None` where the build machine decides.
    pub floor: Option<elf::GlibcVersion>,
}

/// What was found, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// The file.
    pub library: PathBuf,
    /// What it says of itself.
    pub report: Report,
    /// The newest glibc version that it needs.
    pub glibc_floor: String,
    /// Everything that must be mended; empty when all is well.
    pub problems: Vec<String>,
}

/// The most that the library may weigh: it is mapped into every process.
const LARGEST: u64 = 1 << 20;

/// libc and its parts: in every glibc container, and loaded by almost every program anyway.
const MAY_NEED: [&str; 6] = [
    "libc.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libm.so.6",
    "librt.so.1",
    "ld-linux",
];

/// Checks and prints.
///
/// # Errors
/// When there is no library, or it is not as it must be.
pub fn run(args: &Args) -> Result<()> {
    let made = || workspace::target().join("dist/lib/libquota_shim.so");
    let library = args.library.clone().unwrap_or_else(made);
    if !library.exists() {
        bail!(
            "there is no {}: run `cargo xtask dist` first",
            library.display()
        );
    }
    let floor = args.portable.then_some(portable::FLOOR);
    let findings = check(
        &library,
        &Expected {
            exports: hook_names()?,
            floor,
        },
    )?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print(&findings);
    }
    let made_here = args.library.is_none();
    let stale = made_here.then(|| stale::hint(&library)).flatten();
    if !findings.problems.is_empty() {
        let reason = stale.map_or_else(String::new, |hint| format!("; but {hint}"));
        bail!("{} is not as it must be{reason}", library.display());
    }
    if let Some(hint) = stale {
        eprintln!("warning: {hint}");
    }
    Ok(())
}

/// Reads `library` and compares it with `expected`.
///
/// # Errors
/// When the file cannot be read.
pub fn check(library: &Path, expected: &Expected) -> Result<Findings> {
    let report = elf::report(library)?;
    let floor = report.glibc_floor();
    let mut problems = Vec::new();

    let exported: BTreeSet<_> = report.exports.iter().cloned().collect();
    problems.extend(exported.difference(&expected.exports).map(|name| {
        format!("exports {name}, which is no hook: a #[no_mangle] item of some dependency?")
    }));
    problems.extend(
        expected
            .exports
            .difference(&exported)
            .map(|name| format!("does not export {name}")),
    );
    for name in &report.needed {
        if !MAY_NEED.iter().any(|part| name.starts_with(part)) {
            problems.push(format!("needs {name}, which a container may lack"));
        }
    }
    if report
        .versions
        .iter()
        .any(|version| version == "GLIBC_PRIVATE")
    {
        problems.push("needs GLIBC_PRIVATE, which holds for one glibc only".into());
    }
    if let Some(limit) = expected.floor
        && floor > limit
    {
        problems.push(format!("needs glibc {floor}, newer than {limit}"));
    }
    if report.static_tls {
        problems.push("uses static TLS: it cannot be opened once that block is spent".into());
    }
    if !report.nodelete {
        problems.push("may be unloaded by dlclose: link it with -z nodelete".into());
    }
    if report.size > LARGEST {
        problems.push(format!("is {} bytes, more than {LARGEST}", report.size));
    }
    Ok(Findings {
        library: library.to_path_buf(),
        report,
        glibc_floor: floor.to_string(),
        problems,
    })
}

/// Every name that the library exports: one for each `hooks!` entry of the shim's source, and
/// `dlsym`.
///
/// # Errors
/// When the source cannot be read.
pub fn hook_names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::from(["dlsym".to_string()]);
    collect(&workspace::root().join("shim/src"), &mut names)?;
    Ok(names)
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(hooks_in(&fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// The functions declared in the `hooks! { ... }` blocks of a source file. Entries stand one
/// indentation deep, as rustfmt leaves them.
fn hooks_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        if line.trim_start().starts_with("hooks! {") {
            inside = true;
        } else if line.starts_with('}') {
            inside = false;
        } else if inside
            && let Some(rest) = line.strip_prefix("    fn ")
            && let Some((name, _)) = rest.split_once('(')
        {
            names.push(name.to_string());
        }
    }
    names
}

fn print(findings: &Findings) {
    let Findings {
        library,
        report,
        glibc_floor,
        problems,
    } = findings;
    println!("{}", library.display());
    println!("  exports     {}", report.exports.len());
    println!("  needs       {}", report.needed.join(", "));
    println!("  glibc       {glibc_floor} or newer");
    println!("  size        {} bytes", report.size);
    println!(
        "  static TLS  {}",
        if report.static_tls { "yes" } else { "no" }
    );
    println!(
        "  no delete   {}",
        if report.nodelete { "yes" } else { "no" }
    );
    for problem in problems {
        println!("  PROBLEM     {problem}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_inside_the_macro_only() {
        let source = "
hooks! { DRIVER as fns;
    /// Doc.
    fn cuMemAlloc_v2(a: u8) -> CUresult = |call| x();
    fn cuMemFree_v2(
        a: u8,
    ) -> CUresult = |call| y();
}
    fn not_this() {}
fn nor_this() {}
";
        assert_eq!(hooks_in(source), ["cuMemAlloc_v2", "cuMemFree_v2"]);
    }

    #[test]
    fn a_library_that_is_not_the_shim_has_problems() {
        let this = std::env::current_exe().unwrap();
        let exports = BTreeSet::from(["cuInit".to_string()]);
        let floor = Some(elf::GlibcVersion {
            major: 2,
            minor: 1,
            patch: 0,
        });
        let findings = check(&this, &Expected { exports, floor }).unwrap();
        let has = |text: &str| {
            findings
                .problems
                .iter()
                .any(|problem| problem.contains(text))
        };
        assert!(has("does not export cuInit"), "{:?}", findings.problems);
        assert!(has("newer than 2.1"), "{:?}", findings.problems);
        assert!(has("nodelete"), "{:?}", findings.problems);
        assert!(
            has("is ") && has("bytes, more than"),
            "{:?}",
            findings.problems
        );
    }
}
