//! The library as a file: what it needs, what it exports, how large it is. An entry too many here
//! keeps every process of a container from starting.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use quota_tests::{artefacts, workspace};

/// The library under test, and the release library where `cargo xtask dist` has made one.
struct Library {
    path: PathBuf,
    release: bool,
}

fn libraries() -> Vec<Library> {
    let tested = artefacts();
    let mut found = vec![Library {
        path: tested.shim.clone(),
        release: tested.release,
    }];
    let release = workspace().join("target/dist/lib/libquota_shim.so");
    if !tested.release && release.exists() {
        found.push(Library {
            path: release,
            release: true,
        });
    }
    if !found.iter().any(|library| library.release) {
        println!(
            "the release library is not built (cargo xtask dist): the one for tests alone is looked at"
        );
    }
    found
}

/// What a tool of the binutils, which come with the compiler, says about a file.
fn tool(name: &str, args: &[&str], file: &Path) -> String {
    let output = Command::new(name)
        .args(args)
        .arg(file)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Names that a library defines for others.
fn exports(file: &Path) -> BTreeSet<String> {
    tool("nm", &["-D", "--defined-only"], file)
        .lines()
        .map(|line| {
            line.split_whitespace()
                .next_back()
                .unwrap()
                .split('@')
                .next()
                .unwrap()
                .to_string()
        })
        .collect()
}

/// The newest version `PREFIX_x.y.z` that a library asks of its dependencies.
fn newest(file: &Path, prefix: &str) -> Option<Vec<u32>> {
    tool("objdump", &["-T"], file)
        .split(|c: char| c.is_whitespace() || c == '(' || c == ')')
        .filter_map(|word| word.strip_prefix(prefix)?.strip_prefix('_'))
        .filter_map(|version| {
            version
                .split('.')
                .map(|part| part.parse().ok())
                .collect::<Option<Vec<u32>>>()
        })
        .max()
}

/// Only libc and its parts: whatever else a container lacks would keep its programs from starting.
#[test]
fn needs_only_the_c_library() {
    for library in libraries() {
        let dynamic = tool("readelf", &["-dW"], &library.path);
        let needed: Vec<&str> = dynamic
            .lines()
            .filter(|line| line.contains("(NEEDED)"))
            .map(|line| line.split(['[', ']']).nth(1).unwrap())
            .collect();
        println!("{}: needs {needed:?}", library.path.display());
        assert!(needed.contains(&"libc.so.6"), "{needed:?}");
        for name in needed {
            let known = [
                "libc.so.6",
                "libdl.so.2",
                "libpthread.so.0",
                "libm.so.6",
                "librt.so.1",
                "ld-linux-x86-64.so.2",
            ];
            assert!(
                known.contains(&name),
                "{}: needs {name}",
                library.path.display()
            );
        }
        assert!(
            !dynamic.contains("(RPATH)") && !dynamic.contains("(RUNPATH)"),
            "{dynamic}"
        );
        assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
        assert!(
            dynamic.contains("NODELETE"),
            "a hook must not be unmapped under its callers: {dynamic}"
        );
    }
}

/// Every exported name is the driver's, NVML's, or `dlsym`.
#[test]
fn exports_hooks_and_nothing_else() {
    let driver = exports(&artefacts().sim.join("libcuda.so.1"));
    let nvml = exports(&artefacts().sim.join("libnvidia-ml.so.1"));
    assert!(
        driver.len() > 600,
        "the simulated driver exports only {} names",
        driver.len()
    );
    for library in libraries() {
        let exported = exports(&library.path);
        println!(
            "{}: {} names exported",
            library.path.display(),
            exported.len()
        );
        for name in [
            "dlsym",
            "cuInit",
            "cuMemAlloc_v2",
            "cuLaunchKernel",
            "cuLaunchKernel_ptsz",
            "cuGetProcAddress_v2",
        ] {
            assert!(
                exported.contains(name),
                "{}: {name} is not exported",
                library.path.display()
            );
        }
        let strange: Vec<&String> = exported
            .iter()
            // The header defines the last one inline; a driver may come to export it.
            .filter(|name| !matches!(name.as_str(), "dlsym" | "cuGetProcAddress_v2_ptsz"))
            .filter(|name| !driver.contains(*name) && !nvml.contains(*name))
            .collect();
        assert!(
            strange.is_empty(),
            "{}: {strange:?}",
            library.path.display()
        );
        // NVIDIA's private tables are not touched.
        assert!(
            !exported.contains("cuGetExportTable")
                && !exported.contains("nvmlInternalGetExportTable")
        );
    }
}

/// Row 5: no private symbol of glibc. Row 7 for the portable build: none newer than 2.17.
#[test]
fn asks_no_more_of_glibc_than_declared() {
    for library in libraries() {
        let symbols = tool("objdump", &["-T"], &library.path);
        assert!(
            !symbols.contains("GLIBC_PRIVATE"),
            "{}",
            library.path.display()
        );
        let floor = newest(&library.path, "GLIBC").unwrap();
        println!("{}: needs glibc {floor:?}", library.path.display());
        assert!(
            floor <= vec![2, 36],
            "newer than the systems it is built for: {floor:?}"
        );
    }
    let portable = workspace().join("target/dist-portable-build");
    let built = portable.join("x86_64-unknown-linux-gnu/dist/libquota_shim.so");
    if !built.exists() {
        return println!("skipped: no portable library; cargo xtask dist --portable builds it");
    }
    let floor = newest(&built, "GLIBC").unwrap();
    println!("{}: needs glibc {floor:?}", built.display());
    assert!(floor <= vec![2, 17], "{}: {floor:?}", built.display());
}

#[test]
fn the_release_library_is_at_most_a_mebibyte() {
    for library in libraries().iter().filter(|library| library.release) {
        let bytes = std::fs::metadata(&library.path).unwrap().len();
        println!("{}: {bytes} bytes", library.path.display());
        assert!(
            bytes <= 1 << 20,
            "{}: {bytes} bytes",
            library.path.display()
        );
    }
}

/// Static TLS cannot be had by a library that is opened late.
#[test]
fn uses_no_static_tls_and_no_executable_stack() {
    for library in libraries() {
        let dynamic = tool("readelf", &["-dW"], &library.path);
        assert!(
            !dynamic.contains("STATIC_TLS"),
            "{}: {dynamic}",
            library.path.display()
        );
        let relocations = tool("readelf", &["-rW"], &library.path);
        assert!(
            !relocations.contains("TPOFF64"),
            "{}",
            library.path.display()
        );
        let segments = tool("readelf", &["-lW"], &library.path);
        let stack = segments
            .lines()
            .find(|line| line.contains("GNU_STACK"))
            .unwrap();
        assert!(!stack.contains('E'), "{}: {stack}", library.path.display());
    }
}

/// Clients open and link the simulated libraries by the names of the real ones.
#[test]
fn the_simulated_libraries_bear_the_real_names() {
    for (file, soname) in [
        ("libcuda.so.1", "libcuda.so.1"),
        ("libnvidia-ml.so.1", "libnvidia-ml.so.1"),
    ] {
        let path = artefacts().sim.join(file);
        let dynamic = tool("readelf", &["-dW"], &path);
        assert!(
            dynamic.contains(&format!("Library soname: [{soname}]")),
            "{file}: {dynamic}"
        );
        let link = file.trim_end_matches(".1");
        assert!(artefacts().sim.join(link).exists(), "{link} is missing");
    }
}
