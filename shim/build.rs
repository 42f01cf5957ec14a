//! Link arguments of the preloaded library.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquota_shim.so");
    // Hooks stay bound in the program's tables: the code must never be unmapped by a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The tables of hooks hold our own functions, also in a program that exports variables or functions under the driver's
    // names: the loader would bind references by name to the program's.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");

    // rustc asks the linker for libgcc_s, the unwinder, which a minimal container lacks, and a preloaded library that needs
    // what is not there keeps every program from starting. Found first under that name, this file (a linker script)
    // brings the compiler's static copy of the same code instead.
    if let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from) {
        std::fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
    Ok(())
}
