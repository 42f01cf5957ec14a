//! Every name of the newest header is exported, implemented or not: what no source file defines
//! gets a stub that answers `CUDA_ERROR_NOT_SUPPORTED`. Also sets the library's SONAME.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use cuda_headers::symbols::SYMBOLS;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // The driver's own look-ups and calls find the driver's functions, even when a preloaded
    // library exports the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
    // Its threads run until the process ends, whoever closes the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let mut implemented = BTreeSet::new();
    for file in sources(Path::new("src"))? {
        defined_in(&fs::read_to_string(file)?, &mut implemented);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("symbols.rs"), generate(&implemented))
}

fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Collects the `X` of every `fn X` (and of every `=> X`, by which a macro names a twin) outside
/// line comments.
fn defined_in(text: &str, found: &mut BTreeSet<String>) {
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for mark in ["fn ", "=> "] {
            for part in code.split(mark).skip(1) {
                let name: String = part
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                let follows = part.get(name.len()..).unwrap_or_default().trim_start();
                // `=> cuX(...)` is a call, `=> cuX` or `=> cuX,` names a twin.
                if mark == "=> " && follows.starts_with(['(', ':']) {
                    continue;
                }
                found.insert(name);
            }
        }
    }
}

fn generate(implemented: &BTreeSet<String>) -> String {
    let mut out = String::from("// written by build.rs\n");
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format_args!(
        "pub(crate) const COUNT: usize = {};",
        SYMBOLS.len()
    ));
    line(format_args!(
        "#[allow(non_upper_case_globals, dead_code, reason = \"the header's names\")]"
    ));
    line(format_args!("pub(crate) mod id {{"));
    for (index, symbol) in SYMBOLS.iter().enumerate() {
        line(format_args!(
            "    pub(crate) const {}: usize = {index};",
            symbol.name
        ));
    }
    line(format_args!("}}"));
    line(format_args!("macro_rules! stubs {{ ($stub:ident) => {{"));
    for symbol in SYMBOLS.iter().filter(|s| !implemented.contains(s.name)) {
        line(format_args!("    $stub! {{ {} }}", symbol.name));
    }
    line(format_args!("}} }}"));
    // The addresses come from the assembler: a Rust declaration of a function that the same
    // crate defines with another signature would be a second, conflicting one.
    line(format_args!("core::arch::global_asm!("));
    line(format_args!(
        "    \".pushsection .data.rel.ro.gpu_sim_addresses, \\\"aw\\\"\","
    ));
    line(format_args!(
        "    \".p2align 3\", \".globl gpu_sim_addresses\", \".hidden gpu_sim_addresses\","
    ));
    line(format_args!("    \"gpu_sim_addresses:\","));
    for symbol in SYMBOLS {
        line(format_args!("    \".quad {}\",", symbol.name));
    }
    line(format_args!("    \".popsection\","));
    line(format_args!(");"));
    out
}
