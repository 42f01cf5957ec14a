//! Link arguments of the preloaded library.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquota_shim.so");
    // Hooks stay bound in the program's tables: the code must never be unmapped by a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A container without libgcc_s.so.1 could not start one process with a preloaded library that needs it. The standard
    // library asks for `-lgcc_s`; a linker script of that name gives it the static unwinder instead.
    let directory = env::var("OUT_DIR").unwrap_or_default();
    fs::write(
        Path::new(&directory).join("libgcc_s.so"),
        "INPUT(-lgcc_eh)\n",
    )?;
    println!("cargo:rustc-cdylib-link-arg=-L{directory}");
    Ok(())
}
