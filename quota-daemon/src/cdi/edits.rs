//! What a container is given with its device.

use std::fs;
use std::path::Path;

use quota_abi::wire::CONTAINER_SOCKET;
use rustix::fs::StatVfsMountFlags;
use serde::Serialize;

use super::keep;
use super::kind::check_device;
use super::spec::{Device, Edits, Mount};
use crate::shim::FILE;

/// How the processes of a container come to load the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// By our /etc/ld.so.preload, in the place of the image's own: every process.
    #[default]
    Replace,
    /// By LD_PRELOAD: the first process, and those that inherit its environment.
    Env,
    /// Not by us: the image's own /etc/ld.so.preload names the library.
    None,
}

/// Where the library lies in every container.
const FOLDER: &str = "/usr/local/lib/gpu-quota";

/// What `/etc/ld.so.preload` says. The loader puts in the place of `$LIB` the folder of the system's own libraries, which the C library of
/// the image was built with: `lib/x86_64-linux-gnu` on Debian and Ubuntu, `lib64` on Red Hat's and SUSE's kin.
#[must_use]
pub fn line() -> String {
    format!("{FOLDER}/$LIB/{FILE}")
}

/// What `$LIB` is to programs of this machine's own kind, and to 32-bit ones.
///
/// `lib` is both: of 64-bit programs on Arch Linux, Alpine with glibc and Nix, of 32-bit ones where 64-bit ones have `lib64`. The library
/// lies there: a program that says that it cannot load it is better than one without a limit.
const LIB: (&[&str], &[&str]) = if cfg!(target_arch = "aarch64") {
    (
        &["lib/aarch64-linux-gnu", "lib64", "lib"],
        &["lib/arm-linux-gnueabihf"],
    )
} else {
    (
        &["lib/x86_64-linux-gnu", "lib64", "lib"],
        &["lib/i386-linux-gnu", "lib32"],
    )
};

/// What every device of ours has in common.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    /// The daemon's directory.
    pub state: &'a Path,
    /// The library on the host.
    pub library: &'a Path,
    /// How it is loaded.
    pub preload: Preload,
}

impl Common<'_> {
    /// The device of a container.
    ///
    /// # Errors
    /// A device cannot have this name.
    pub fn device(&self, container: &str) -> Result<Device, String> {
        check_device(container)?;
        let socket = self.state.join("containers").join(container);
        let directory = Path::new(CONTAINER_SOCKET)
            .parent()
            .unwrap_or(Path::new("/"));
        let mut mounts = vec![mount(&socket, directory, &DATA)];
        let (own, other) = LIB;
        for lib in own {
            mounts.push(mount(self.library, &inside(lib), &LIBRARY));
        }
        if self.preload != Preload::None {
            let empty = keep::empty(self.state);
            mounts.extend(other.iter().map(|lib| mount(&empty, &inside(lib), &DATA)));
        }
        let mut env = vec![format!("GPU_QUOTA_SOCKET={CONTAINER_SOCKET}")];
        match self.preload {
            Preload::Replace => {
                let file = keep::preload(self.state);
                mounts.push(mount(&file, Path::new("/etc/ld.so.preload"), &DATA));
            }
            Preload::Env => env.push(format!("LD_PRELOAD={}", line())),
            Preload::None => {}
        }
        Ok(Device {
            name: container.into(),
            container_edits: Edits { env, mounts },
        })
    }
}

/// Why programs in a container would run without this library, though it is mounted.
#[must_use]
pub fn trouble_with(library: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = library.display();
    let readable = fs::metadata(library).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
    if !readable {
        return Some(format!(
            "{shown} may not be read by every user: programs of other users in a container run without it; chmod 755 {shown}"
        ));
    }
    let mounted = rustix::fs::statvfs(library).ok()?;
    let noexec = mounted.f_flag.contains(StatVfsMountFlags::NOEXEC);
    noexec.then(|| {
        format!("{shown} lies on a file system that is mounted noexec: no program can load it; install it elsewhere")
    })
}

/// Of the library, whose pages are executed.
const LIBRARY: [&str; 4] = ["ro", "nosuid", "nodev", "bind"];
/// Of everything else. A runtime without root may not take away what the host's mount has of these.
const DATA: [&str; 5] = ["ro", "nosuid", "nodev", "noexec", "bind"];

fn inside(lib: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(lib).join(FILE)
}

fn mount(host: &Path, container: &Path, options: &[&str]) -> Mount {
    Mount {
        host_path: host.to_string_lossy().into_owned(),
        container_path: container.to_string_lossy().into_owned(),
        options: options.iter().copied().map(String::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(preload: Preload) -> Edits {
        let common = Common {
            state: Path::new("/run/q"),
            library: Path::new("/opt/libquota_shim.so"),
            preload,
        };
        common.device("team-a").unwrap().container_edits
    }

    fn places(edits: &Edits) -> Vec<(&str, &str)> {
        edits
            .mounts
            .iter()
            .map(|mount| (mount.host_path.as_str(), mount.container_path.as_str()))
            .collect()
    }

    #[test]
    fn all_of_it_is_mounted_for_reading_only() {
        for preload in [Preload::Replace, Preload::Env, Preload::None] {
            for mount in edits(preload).mounts {
                for option in ["ro", "nosuid", "nodev", "bind"] {
                    assert!(mount.options.iter().any(|have| have == option), "{mount:?}");
                }
                let executable = mount.host_path == "/opt/libquota_shim.so";
                let noexec = mount.options.iter().any(|have| have == "noexec");
                assert_eq!(noexec, !executable, "{mount:?}");
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_is_mounted() {
        let all = edits(Preload::Replace);
        let library = "/opt/libquota_shim.so";
        let lib = |lib: &str| format!("/usr/local/lib/gpu-quota/{lib}/libquota_shim.so");
        let [debian, red_hat, arch, debian32, multilib] = [
            "lib/x86_64-linux-gnu",
            "lib64",
            "lib",
            "lib/i386-linux-gnu",
            "lib32",
        ]
        .map(lib);
        let expected = [
            ("/run/q/containers/team-a", "/run/gpu-quota/container"),
            (library, &debian),
            (library, &red_hat),
            (library, &arch),
            ("/run/q/cdi/libquota_empty32.so", &debian32),
            ("/run/q/cdi/libquota_empty32.so", &multilib),
            ("/run/q/cdi/ld.so.preload", "/etc/ld.so.preload"),
        ];
        assert_eq!(places(&all), expected);
        assert_eq!(
            all.env,
            ["GPU_QUOTA_SOCKET=/run/gpu-quota/container/attach.sock"]
        );

        let env = edits(Preload::Env);
        assert_eq!(places(&env), expected[..6]);
        assert_eq!(
            env.env[1],
            "LD_PRELOAD=/usr/local/lib/gpu-quota/$LIB/libquota_shim.so"
        );
        let none = edits(Preload::None);
        assert_eq!(places(&none), expected[..4]);
        assert_eq!(none.env.len(), 1);
    }

    #[test]
    fn a_library_that_some_cannot_load_is_told() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libquota_shim.so");
        fs::write(&library, b"").unwrap();
        let mode = |mode| fs::set_permissions(&library, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert_eq!(trouble_with(&library), None);
        mode(0o750);
        assert!(trouble_with(&library).unwrap().contains("chmod 755"));
        // A file system from which nothing is run, where this machine has one that everybody can read.
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let noexec = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (place, options) = (fields.next()?, fields.nth(1)?);
            options
                .split(',')
                .any(|one| one == "noexec")
                .then_some(place)
        });
        let told: Vec<_> = noexec
            .filter_map(|place| trouble_with(Path::new(place)))
            .collect();
        assert!(
            told.iter()
                .all(|text| text.contains("noexec") || text.contains("chmod")),
            "{told:?}"
        );
    }

    #[test]
    fn a_name_that_no_device_can_have_is_refused() {
        let common = Common {
            state: Path::new("/run/q"),
            library: Path::new("/opt/libquota_shim.so"),
            preload: Preload::Replace,
        };
        assert!(common.device("_a").unwrap_err().contains("\"_a\""));
    }
}
