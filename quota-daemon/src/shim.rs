//! Where `libquota_shim.so` is.

use std::env;
use std::path::{Path, PathBuf};

use crate::exit::Stop;

/// The file that is preloaded.
pub const FILE: &str = "libquota_shim.so";

/// The variable that names the library, for both `run` and `doctor`.
pub const VARIABLE: &str = "GPU_QUOTA_SHIM";

/// Where packages install it.
const INSTALLED: [&str; 2] = ["/usr/local/lib/gpu-quota", "/usr/lib/gpu-quota"];

/// Finds the library: `asked` (a flag or [`VARIABLE`]) if given, else beside this binary, else
/// where packages put it.
///
/// # Errors
/// [`Stop::NotFound`] with every place that was looked at; [`Stop::Usage`] for a path that the
/// dynamic loader cannot take.
pub fn find(asked: Option<&Path>) -> Result<PathBuf, Stop> {
    let found = match asked {
        Some(path) if path.is_file() => path.to_path_buf(),
        Some(path) => {
            return Err(Stop::NotFound(format!(
                "there is no {}; --shim and {VARIABLE} take the path of {FILE}",
                path.display()
            )));
        }
        None => search()?,
    };
    let absolute = std::path::absolute(&found).map_err(anyhow::Error::from)?;
    check_preloadable(&absolute)?;
    Ok(absolute)
}

fn search() -> Result<PathBuf, Stop> {
    let places = places();
    places
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or_else(|| {
            let places: Vec<_> = places
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Stop::NotFound(format!(
                "{FILE} is at none of {}; name it with --shim or {VARIABLE}",
                places.join(", ")
            ))
        })
}

/// Every place that is searched, in order: first where this binary's own build lies, in the
/// installed layout (`bin/` and `lib/` side by side) and in cargo's (one folder).
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(binary) = env::current_exe()
        && let Some(folder) = binary.parent()
    {
        if let Some(prefix) = folder.parent() {
            places.push(prefix.join("lib").join(FILE));
        }
        places.push(folder.join(FILE));
    }
    places.extend(INSTALLED.iter().map(|folder| Path::new(folder).join(FILE)));
    places
}

/// The loader splits `LD_PRELOAD` at colons and spaces and knows no way to quote them, and expands
/// `$ORIGIN` and its like.
fn check_preloadable(path: &Path) -> Result<(), Stop> {
    let Some(text) = path.to_str() else {
        return Err(Stop::Usage(format!("{} is not UTF-8", path.display())));
    };
    if let Some(bad) = text
        .chars()
        .find(|c| c.is_whitespace() || matches!(c, ':' | '$'))
    {
        return Err(Stop::Usage(format!(
            "{text} contains {bad:?}, which LD_PRELOAD cannot hold; \
             copy or link {FILE} to another folder and name that with --shim"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_the_loader_would_split_is_refused() {
        for bad in [
            "/opt/a b/x.so",
            "/opt/a:b/x.so",
            "/opt/$LIB/x.so",
            "/opt/a\nb/x.so",
        ] {
            let stop = check_preloadable(Path::new(bad)).unwrap_err();
            assert_eq!(stop.code(), 2, "{bad}");
            assert!(stop.to_string().contains("--shim"), "{stop}");
        }
        assert!(check_preloadable(Path::new("/opt/gpu-quota/lib/libquota_shim.so")).is_ok());
    }

    #[test]
    fn an_asked_path_that_is_not_there_is_not_searched_elsewhere() {
        let stop = find(Some(Path::new("/nonexistent/libquota_shim.so"))).unwrap_err();
        assert_eq!(stop.code(), 3);
        assert!(stop.to_string().contains("/nonexistent/"), "{stop}");
    }
}
