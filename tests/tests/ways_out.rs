//! Threads and processes that leave by another way than a return: jumps out of signal handlers, cancellation, other programs
//! under the same pid, readers that have gone. None of them frees a program from its quota, or ends one that goes on bare.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quota_tests::{Finished, Sim, program};

/// A handler that leaves the gate by `siglongjmp` leaves a thread that is limited as before.
#[test]
fn a_jump_out_of_the_gate() {
    let sim = Sim::new();
    let client = sim.client("jump_out_of_gate").memory("1GiB").compute("10%");
    let finished = client.free_context().run().ok();
    assert_eq!(finished.number("blocks"), 4);
    let share: f64 = finished.value("share").parse().unwrap();
    assert!(
        share < 40.0,
        "{share} % where 10 % were asked, and 99 % are to be had"
    );
}

/// The same out of a wait in the driver, whatever the stack looks like afterwards.
#[test]
fn a_jump_out_of_the_drivers_wait() {
    let limited = |sim: &Sim, name: &str| {
        let client = sim.client(name).memory("1GiB").compute("50%");
        client.free_context()
    };
    for bytes in ["1", "1000", "16000", "256000"] {
        let sim = Sim::new();
        let client = limited(&sim, "jump_out_of_wait").arg(bytes);
        assert_eq!(client.run().ok().number("blocks"), 4, "{bytes}");
    }
    let sim = Sim::new();
    let fibre = limited(&sim, "jump_off_fibre").run().ok();
    assert_eq!(fibre.number("blocks"), 4);
}

#[test]
fn a_signal_handler_that_calls_the_driver_in_the_gate() {
    let sim = Sim::new();
    let client = sim.client("handler_allocates").memory("1GiB").compute("5%");
    let finished = client.free_context().run().ok();
    assert_eq!(
        finished.number("handler") + finished.number("afterwards"),
        4,
        "{finished:?}"
    );
}

/// A cancelled thread ends, its process goes on. (Not compared with the bare program: the simulated driver has places of its own where
/// a thread is cancelled, and unwinding through it ends the process.)
#[test]
fn a_thread_that_is_cancelled_in_a_hook() {
    let sim = Sim::new();
    for way in ["init", "refused", "info"] {
        let client = sim.client("cancelled").arg(way).memory("1GiB");
        let finished = client.free_context().run();
        assert!(finished.success(), "{way}: {finished:?}");
        assert_eq!(finished.number("cancelled"), 1, "{way}");
        assert_eq!(finished.number("alloc"), 0, "{way}");
    }
}

/// What a program held is free when it has become another one, which need not even call CUDA.
#[test]
fn a_process_that_becomes_a_program_without_cuda() {
    let sim = Sim::new();
    let mut holder = sim
        .client("exec_other")
        .arg("30")
        .memory("1GiB")
        .free_context()
        .spawn();
    holder.line("held");
    let other = format!("/proc/{}/exe", holder.pid());
    while std::fs::read_link(&other).unwrap() == program("exec_other") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let after = sim.client("clear_environment").arg("keep").memory("1GiB");
    assert_eq!(after.free_context().run().ok().number("blocks"), 4);
    holder.kill();
}

/// A program that clears its environment keeps the quota that it was started with.
#[test]
fn a_cleared_environment() {
    for way in ["keep", "clear", "unset", "replace"] {
        let sim = Sim::new();
        let group = sim.group("own");
        let client = sim.client("clear_environment").arg(way).memory("1GiB");
        let client = client.env("GPU_QUOTA_GROUP", group).free_context();
        assert_eq!(client.run().ok().number("blocks"), 4, "{way}");
    }
}

/// A child never makes its parent forget what it holds, also where the kernel cannot wipe pages in a child.
#[test]
fn children_that_share_memory() {
    for way in ["vfork", "clone", "fork"] {
        for old_kernel in [false, true] {
            let sim = Sim::new();
            let client = if old_kernel {
                // The simulator in full needs such pages itself.
                let client = sim.client("without_wipe_on_fork");
                client
                    .arg(program("vfork_calls"))
                    .env("GPU_SIM_MODE", "null")
            } else {
                sim.client("vfork_calls")
            };
            let finished = client.arg(way).memory("1GiB").free_context().run().ok();
            assert_eq!(finished.number("more"), 4, "{way}, old: {old_kernel}");
            assert_eq!(finished.number("freed"), 4, "{way}, old: {old_kernel}");
        }
    }
}

/// Runs `init` from a shell that prepares something first.
fn shell(sim: &Sim, script: &str) -> Finished {
    let script = script.replace("INIT", program("init").to_str().unwrap());
    let client = sim.command(Path::new("/bin/bash")).args(["-c", &script]);
    client.watchdog(20).run()
}

/// A line that nobody reads is lost; the program gets its answer.
#[test]
fn a_reader_that_has_gone_or_does_not_read() {
    let sim = Sim::new();
    let gone = "exec 3> >(exit); wait $!; GPU_QUOTA_MEMORY=lots INIT 2>&3; echo rc=$?";
    let full = "mkfifo \"$F\"; exec 4<>\"$F\"; timeout 2 cat /dev/zero >&4; GPU_QUOTA_MEMORY=lots INIT 2>&4; echo rc=$?";
    let fifo = "mkfifo \"$F\"; GPU_QUOTA_LOG_FILE=$F GPU_QUOTA_MEMORY=lots INIT; echo rc=$?";
    for script in [gone, full, fifo] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("F={}/fifo; {script}", dir.path().display());
        let finished = shell(&sim, &script);
        assert!(!finished.hung, "{script}: {finished:?}");
        assert_eq!(finished.number("init"), 800, "{script}: {finished:?}");
        assert_eq!(finished.number("rc"), 0, "{script}: {finished:?}");
    }
}

/// A process that may not write a file as large as the region is refused, not killed; once the file is there it needs none.
#[test]
fn a_limit_on_the_size_of_files() {
    let sim = Sim::new();
    // The simulation's own file is made first.
    assert_eq!(sim.client("init").bare().run().ok().number("init"), 0);
    let limited = "ulimit -f 100; GPU_QUOTA_MEMORY=1GiB INIT; echo rc=$?";
    let finished = shell(&sim, limited);
    assert_eq!(finished.number("init"), 800, "{finished:?}");
    assert_eq!(finished.number("rc"), 0, "{finished:?}");
    assert!(finished.stderr.contains("ulimit -f"), "{finished:?}");
    let path = CString::new(sim.region().as_os_str().as_bytes()).unwrap();
    std::fs::remove_file(sim.region()).unwrap();
    quota_abi::region::Mapped::open_or_create(&path).unwrap();
    assert_eq!(shell(&sim, limited).number("init"), 0);
}
