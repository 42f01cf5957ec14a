//! Is the library where it should be, and does this system's loader take it?

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::child;
use super::finding::Findings;
use crate::shim;

/// What every program of a container preloads.
const SYSTEM_LIST: &str = "/etc/ld.so.preload";

/// Examines the library; gives its path when it loads.
pub(super) fn examine(asked: Option<&Path>, findings: &mut Findings) -> Option<PathBuf> {
    let path = match shim::find(asked) {
        Ok(path) => path,
        Err(stop) => {
            findings.failure(
                "library",
                stop.to_string(),
                "install libquota_shim.so, or name it with --shim",
            );
            return None;
        }
    };
    findings.ok("library", format!("{}", path.display()));
    let loads = load(&path, findings);
    preloaded_now(findings);
    loads.then_some(path)
}

/// Preloads it into a program of this system that shows what is mapped into it: the loader only
/// warns about a library that it cannot use, and goes on without.
fn load(path: &Path, findings: &mut Findings) -> bool {
    let mut command = Command::new("cat");
    command
        .arg("/proc/self/maps")
        .env("LD_PRELOAD", path)
        .env_remove("LD_LIBRARY_PATH");
    let ended = match child::run(&mut command) {
        Ok(ended) => ended,
        Err(error) => {
            findings.warning(
                "loading",
                format!("cannot start cat to try the library: {error}"),
                "run doctor where the usual programs are installed",
            );
            return true;
        }
    };
    let libc = libc_of(&ended.stdout);
    if ended.succeeded() && ended.stdout.contains(shim::FILE) {
        findings.ok(
            "loading",
            format!("this system's programs load it ({libc})"),
        );
        return true;
    }
    let said = ended.stderr.trim().to_string();
    let said = if said.is_empty() {
        ended.describe()
    } else {
        said
    };
    findings.failure(
        "loading",
        format!("it does not load here ({libc}): {said}"),
        mend(&said, libc),
    );
    false
}

/// Which C library the maps of a process show.
fn libc_of(maps: &str) -> &'static str {
    if maps.contains("ld-musl") {
        "musl"
    } else if maps.contains("/libc.so.6") || maps.contains("/libc-2.") {
        "glibc"
    } else if maps.is_empty() {
        "C library unknown"
    } else {
        "statically linked"
    }
}

/// What to do about what the loader said.
fn mend(said: &str, libc: &str) -> &'static str {
    if libc == "musl" {
        "this is a musl system (Alpine?): use an image with glibc, which CUDA needs as well"
    } else if said.contains("GLIBC_") {
        "the library was built for a newer glibc: use the one of `cargo xtask dist --portable`"
    } else if said.contains("wrong ELF class") || said.contains("cannot open shared object") {
        "check that the file is readable here and built for this architecture"
    } else {
        "try `LD_PRELOAD=<library> LD_DEBUG=libs /bin/true` to see what the loader does"
    }
}

/// Whether programs started from here get the library already.
fn preloaded_now(findings: &mut Findings) {
    let variable = env::var("LD_PRELOAD").unwrap_or_default();
    let list = fs::read_to_string(SYSTEM_LIST).unwrap_or_default();
    match (variable.contains(shim::FILE), list.contains(shim::FILE)) {
        (_, true) => findings.info(
            "preload",
            format!("{SYSTEM_LIST} loads it into every program"),
        ),
        (true, false) => findings.info("preload", "LD_PRELOAD is set to it here"),
        (false, false) => findings.info(
            "preload",
            "programs started from here do not load it by themselves; `quota-daemon run` does that",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_mend() {
        let glibc =
            "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by x)";
        assert!(mend(glibc, "glibc").contains("--portable"));
        assert!(mend("", "musl").contains("image with glibc"));
        assert!(mend("wrong ELF class: ELFCLASS32", "glibc").contains("architecture"));
    }

    #[test]
    fn a_file_that_is_no_library_does_not_load() {
        let file = std::env::temp_dir().join(format!("no-library-{}.so", std::process::id()));
        fs::write(&file, "text").unwrap();
        let mut findings = Findings::default();
        let loads = load(&file, &mut findings);
        fs::remove_file(&file).unwrap();
        assert!(!loads);
        assert!(findings.failed(), "{findings:?}");
    }
}
