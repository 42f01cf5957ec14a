//! Whether a built library is older than what it is built from: then what is found of it says nothing of the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::workspace;

/// The packages that the library is made of.
const MADE_OF: [&str; 4] = ["shim", "limiter", "quota-abi", "cuda-headers"];

/// What to say of `library` where it is older than the checkout's sources.
#[must_use]
pub fn hint(library: &Path) -> Option<String> {
    let packages = MADE_OF.map(|package| workspace::root().join(package));
    let source = newer(library, &packages)?;
    let source = source
        .strip_prefix(workspace::root())
        .unwrap_or(&source)
        .display();
    Some(format!(
        "{} is older than {source}: run `cargo xtask dist` and then this again",
        library.display()
    ))
}

/// A source file of `packages` that has changed since `built` was built: the last one.
fn newer(built: &Path, packages: &[PathBuf]) -> Option<PathBuf> {
    let at = fs::metadata(built).ok()?.modified().ok()?;
    let mut files = Vec::new();
    for package in packages {
        files.extend(dated(package.join("Cargo.toml")));
        collect(&package.join("src"), &mut files);
    }
    let (last, file) = files.into_iter().max()?;
    (last > at).then_some(file)
}

fn collect(folder: &Path, files: &mut Vec<(SystemTime, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.extend(dated(path));
        }
    }
}

fn dated(file: PathBuf) -> Option<(SystemTime, PathBuf)> {
    Some((fs::metadata(&file).ok()?.modified().ok()?, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_library_is_stale_when_any_source_is_newer() {
        let root = std::env::temp_dir().join(format!("stale-{}", std::process::id()));
        let package = root.join("package");
        fs::create_dir_all(package.join("src/deep")).unwrap();
        let now = SystemTime::now();
        let file = |name: &str, age: u64| {
            let path = root.join(name);
            fs::write(&path, "text").unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
            path
        };
        let library = file("library.so", 50);
        file("package/Cargo.toml", 90);
        file("package/src/a.rs", 80);
        file("package/src/notes.md", 10);
        let stale = || newer(&library, std::slice::from_ref(&package));
        let fresh = stale();
        let changed = file("package/src/deep/b.rs", 20);
        let found = stale();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((fresh, found), (None, Some(changed)));
    }
}
