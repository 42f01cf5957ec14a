//! What a container is given with its device.

use std::path::Path;

use quota_abi::wire::CONTAINER_SOCKET;
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
    fn a_name_that_no_device_can_have_is_refused() {
        let common = Common {
            state: Path::new("/run/q"),
            library: Path::new("/opt/libquota_shim.so"),
            preload: Preload::Replace,
        };
        assert!(common.device("_a").unwrap_err().contains("\"_a\""));
    }
}
