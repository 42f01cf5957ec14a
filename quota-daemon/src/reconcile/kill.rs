//! Ending a process that uses a GPU past the library, where that is configured.
//!
//! A pid may have become somebody else's since it was looked at. A pidfd cannot: it is opened first, and everything that
//! condemns the process is looked at again through `/proc` afterwards. If the process had gone meanwhile, the signal goes
//! nowhere.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Declared, cgroup, look};

/// Who is to be killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its pid.
    pub pid: u32,
    /// Its start time.
    pub start: u64,
    /// The declared container in whose cgroup it is.
    pub container: String,
    /// Its program's name.
    pub program: String,
}

/// Why a process was left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Left {
    /// It has ended.
    #[error("it has ended")]
    Gone,
    /// Somebody else has the pid.
    #[error("somebody else has its pid")]
    Other,
    /// It is not in a declared container's cgroup any more.
    #[error("its cgroup {0:?} is no declared container's")]
    Elsewhere(String),
    /// It has registered.
    #[error("it has registered")]
    Registered,
    /// It is pid 0, pid 1, or the daemon.
    #[error("it is not one that may be killed")]
    Never,
    /// The kernel refuses.
    #[error("the kernel refuses: {0}")]
    Refused(Errno),
}

/// Kills it, if it still is who it was, and where it was.
///
/// # Errors
/// Why not.
pub fn kill(
    target: &Target,
    containers: &[Declared],
    is_registered: impl Fn(u32) -> bool,
) -> Result<(), Left> {
    if target.pid <= 1 || target.pid == std::process::id() {
        return Err(Left::Never);
    }
    let pid = i32::try_from(target.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Left::Never)?;
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Err(Left::Gone),
        Err(error) => return Err(Left::Refused(error)),
    };
    let seen = look(target.pid).ok_or(Left::Gone)?;
    if seen.start != target.start {
        return Err(Left::Other);
    }
    let owner = cgroup::owner(containers, &seen.cgroup);
    if !owner.is_some_and(|owner| owner.killable && owner.name == target.container) {
        return Err(Left::Elsewhere(seen.cgroup));
    }
    if is_registered(target.pid) {
        return Err(Left::Registered);
    }
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) => Ok(()),
        Err(Errno::SRCH) => Err(Left::Gone),
        Err(error) => Err(Left::Refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    use super::*;

    /// A process that ends with its test.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    fn sleeper() -> (Sleeper, Target, Vec<Declared>) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let seen = look(child.id()).unwrap();
        let target = Target {
            pid: child.id(),
            start: seen.start,
            container: "a".into(),
            program: seen.program,
        };
        let declared = Declared {
            name: "a".into(),
            cgroups: vec![seen.cgroup],
        };
        (Sleeper(child), target, vec![declared])
    }

    #[test]
    fn one_that_is_condemned_is_killed() {
        let (mut sleeper, target, containers) = sleeper();
        let killed = kill(&target, &containers, |_| false);
        if containers[0].cgroups[0] == "/" {
            // In the root cgroup everybody is: nobody is killed for being there.
            assert_eq!(killed, Err(Left::Elsewhere("/".into())));
            return;
        }
        assert_eq!(killed, Ok(()));
        assert_eq!(sleeper.0.wait().unwrap().signal(), Some(9));
        assert_eq!(kill(&target, &containers, |_| false), Err(Left::Gone));
    }

    #[test]
    fn anybody_else_is_left_alone() {
        let (mut sleeper, target, containers) = sleeper();
        let other = Target {
            start: target.start + 1,
            ..target.clone()
        };
        assert_eq!(kill(&other, &containers, |_| false), Err(Left::Other));
        assert!(matches!(
            kill(&target, &[], |_| false),
            Err(Left::Elsewhere(_))
        ));
        let renamed = Target {
            container: "b".into(),
            ..target.clone()
        };
        assert!(matches!(
            kill(&renamed, &containers, |_| false),
            Err(Left::Elsewhere(_))
        ));
        if containers[0].cgroups[0] != "/" {
            assert_eq!(kill(&target, &containers, |_| true), Err(Left::Registered));
        }
        for pid in [0, 1, std::process::id(), u32::MAX] {
            let never = Target {
                pid,
                ..target.clone()
            };
            assert_eq!(kill(&never, &containers, |_| false), Err(Left::Never));
        }
        assert_eq!(sleeper.0.try_wait().unwrap(), None, "it lives");
    }
}
