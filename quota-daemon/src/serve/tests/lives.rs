//! Processes that come and go, and daemons that do.

use super::*;
use quota_abi::slots;
use quota_abi::sync::Ordering;

const ONE: &str = "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\ncompute = \"30%\"\n";

/// A child that attaches, claims a slot with 1 MiB held there, and stays until it is killed.
struct Child(libc::pid_t);

impl Child {
    fn attach(socket: &Path) -> Self {
        // SAFETY: the child makes system calls and allocates, with an allocator that survives fork; it ends by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: what the daemon has open, its lock above all, is not the child's.
                unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
                let held = std::panic::catch_unwind(|| {
                    let attached = attach(socket);
                    let slot = slots::claim(&attached.usage, &Identity::own()).unwrap();
                    let index = quota_abi::devices::index_of(&attached.usage, &GPU.0).unwrap();
                    let ledger = quota_abi::devices::ledger(attached.usage.get(), index).unwrap();
                    ledger.force(slot, 1 << 20);
                });
                if held.is_ok() {
                    loop {
                        // SAFETY: waits.
                        unsafe { libc::pause() };
                    }
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit(1) }
            }
            pid => Self(pid),
        }
    }

    fn kill(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn used(daemon: &Daemon) -> u64 {
    daemon.manager().status().containers[0].devices[0].memory_used_bytes
}

fn processes(daemon: &Daemon) -> u32 {
    daemon.manager().status().containers[0].processes
}

#[test]
fn a_killed_process_is_declared_dead_and_the_living_reap_it() {
    let daemon = Daemon::start(ONE);
    let socket = daemon.socket("a");
    let mine = attach(&socket);
    let slot = slots::claim(&mine.usage, &Identity::own()).unwrap();
    let child = Child::attach(&socket);
    wait_until("its memory", || used(&daemon) == 1 << 20);
    let theirs = slots::owners(&mine.usage)
        .find(|(index, _)| *index != slot)
        .unwrap();
    child.kill();
    wait_until("its end", || processes(&daemon) == 1);
    let dead = &mine.policy.get().dead[theirs.0];
    assert_eq!(dead.load(Ordering::Acquire), theirs.1.word());
    // What is not of a living process is not counted, whether or not anybody has reaped it.
    assert_eq!(used(&daemon), 0);
    let notes = std::fs::read_dir(daemon.state().join("clients/a")).unwrap();
    assert_eq!(notes.count(), 1);
}

#[test]
fn another_daemon_adopts_who_lives_and_buries_who_has_died_meanwhile() {
    let mut daemon = Daemon::start(ONE);
    let socket = daemon.socket("a");
    let (stays, goes) = (Child::attach(&socket), Child::attach(&socket));
    wait_until("both", || used(&daemon) == 2 << 20);
    let before = attach(&socket);
    let generation = before
        .policy
        .get()
        .header
        .generation
        .load(Ordering::Relaxed);
    daemon.running = None;
    goes.kill();
    daemon.restart();
    assert_eq!(processes(&daemon), 2);
    assert_eq!(used(&daemon), 1 << 20);
    let after = before
        .policy
        .get()
        .header
        .generation
        .load(Ordering::Relaxed);
    assert_eq!(after, generation, "nothing has changed");
    stays.kill();
    wait_until("its end", || processes(&daemon) == 1);
    // The same region all the time.
    before.usage.memory[31][511].store(7 << 32, Ordering::Relaxed);
    let again = attach(&socket);
    assert_eq!(again.usage.memory[31][511].load(Ordering::Relaxed), 7 << 32);
}

#[test]
fn the_first_process_finds_everything_cleared() {
    let daemon = Daemon::start(ONE);
    let socket = daemon.socket("a");
    let child = Child::attach(&socket);
    wait_until("its memory", || used(&daemon) == 1 << 20);
    child.kill();
    wait_until("its end", || processes(&daemon) == 0);
    let mine = attach(&socket);
    assert_eq!(slots::owners(&mine.usage).count(), 0);
    let index = quota_abi::devices::find(&mine.usage, &GPU.0).unwrap();
    assert_eq!(
        quota_abi::devices::ledger(mine.usage.get(), index)
            .unwrap()
            .usage(),
        0
    );
}

#[test]
fn a_region_that_is_no_region_any_more_is_replaced_when_nobody_has_it() {
    let daemon = Daemon::start(ONE);
    let socket = daemon.socket("a");
    let child = Child::attach(&socket);
    wait_until("its memory", || used(&daemon) == 1 << 20);
    let path = daemon.state().join("regions/a.usage.3");
    std::fs::write(&path, b"no region").unwrap();
    child.kill();
    wait_until("its end", || processes(&daemon) == 0);
    let mine = attach(&socket);
    assert_eq!(slots::claim(&mine.usage, &Identity::own()), Some(0));
    assert_eq!(processes(&daemon), 1);
    assert!(daemon.manager().status().containers[0].damage.is_some());
}

#[test]
fn credit_without_end_is_not_left_to_those_who_come_later() {
    let daemon = Daemon::start(ONE);
    let file = std::fs::File::options()
        .write(true)
        .open(daemon.state().join("regions/a.usage.3"));
    let level = std::mem::offset_of!(layout::Region, buckets) as u64;
    std::os::unix::fs::FileExt::write_at(&file.unwrap(), &i64::MAX.to_le_bytes(), level).unwrap();
    let mine = attach(&daemon.socket("a"));
    assert_eq!(mine.usage.buckets[0].level(), 0);
}

#[test]
fn where_nobody_knows_what_was_declared_the_policy_says_it() {
    let mut daemon = Daemon::start(ONE);
    let child = Child::attach(&daemon.socket("a"));
    wait_until("its memory", || used(&daemon) == 1 << 20);
    daemon.running = None;
    std::fs::remove_file(daemon.state().join("containers.json")).unwrap();
    *daemon.config.lock() = String::new();
    daemon.restart();
    let share = daemon.manager().status().containers[0].devices[0].clone();
    assert_eq!(share.memory_limit_bytes, Some(4 << 30));
    assert_eq!(share.own_percent, Some(30.0));
    assert_eq!((used(&daemon), processes(&daemon)), (1 << 20, 1));
    child.kill();
    wait_until("its end", || processes(&daemon) == 0);
}

#[test]
fn a_second_daemon_names_the_first() {
    let daemon = Daemon::start(ONE);
    let refused = daemon.try_start().err().unwrap().to_string();
    assert!(
        refused.contains(&format!("pid {}", std::process::id())),
        "{refused}"
    );
}
