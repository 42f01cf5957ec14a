//! Every NVML name of the newest header is exported, implemented or not: what no source file
//! defines gets a stub that answers `NVML_ERROR_NOT_SUPPORTED`. Also sets the library's SONAME.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

use cuda_headers::nvml::NAMES;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    // Calls inside the library stay inside, whatever a preloaded library exports.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");

    let mut defined = BTreeSet::new();
    for entry in fs::read_dir("src")? {
        let text = fs::read_to_string(entry?.path())?;
        for code in text.lines().filter_map(|line| line.split("//").next()) {
            for part in code.split("fn ").skip(1) {
                defined.insert(part.split('(').next().unwrap_or_default().to_owned());
            }
        }
    }
    let mut out = String::from("// written by build.rs\nstubs! {\n");
    for name in NAMES.iter().filter(|name| !defined.contains(**name)) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "    {name}");
    }
    out.push_str("}\n");
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(folder.join("stubs.rs"), out)
}
