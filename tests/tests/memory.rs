//! What is charged, what is given back, and what a client sees of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, GIB, MIB, Sim, driver_without};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

/// Runs a program whose lines under a quota of 1 GiB are known.
#[track_caller]
fn prints(sim: &Sim, name: &str, lines: &[&str]) {
    let client = quota(sim.client(name)).run().ok();
    assert_eq!(client.stdout.lines().collect::<Vec<_>>(), lines, "{name}");
    assert_eq!(client.stderr, "", "{name}");
}

/// Rows 36 and 88, and the kinds around them: NULL, nonsense, wrong states. The answers are the
/// driver's, and nothing is charged for them.
#[test]
fn odd_arguments_get_the_drivers_answer() {
    let run = |bare: bool| {
        let sim = Sim::new();
        quota(sim.client("odd_arguments"))
            .compute("50%")
            .bare_if(bare)
            .run()
            .ok()
    };
    let (bare, limited) = (run(true), run(false));
    assert!(bare.stdout.lines().count() > 40);
    assert_eq!(limited.stdout, bare.stdout);
    assert_eq!(limited.stderr, bare.stderr);
}

#[test]
fn the_view_follows_the_account() {
    let sim = Sim::new();
    let gib = GIB.to_string();
    let half = (GIB / 2).to_string();
    prints(
        &sim,
        "view",
        &[
            &format!("begin=0 {gib} {gib}"),
            "alloc=0",
            &format!("half=0 {half} {gib}"),
            "rest=0",
            &format!("full=0 0 {gib}"),
            "more=2",
            &format!("end=0 {gib} {gib}"),
        ],
    );
}

/// Rows 30 and 31: the context alone is more than the limit. The view says that nothing is free, and
/// no figure wraps around.
#[test]
fn a_context_larger_than_the_limit_leaves_nothing_free() {
    let sim = Sim::new();
    let client = sim
        .client("view")
        .memory("256MiB")
        .env("GPU_QUOTA_CONTEXT", "345MiB")
        .run();
    let quota = 256 * MIB;
    // Either the context is refused with the code for it, or the view is of nothing free.
    if client.success() {
        assert_eq!(client.value("begin"), format!("0 0 {quota}"));
        assert_eq!(client.value("alloc"), "2");
        assert_eq!(client.value("end"), format!("0 0 {quota}"));
    } else {
        assert!(
            client
                .stderr
                .contains("cuDevicePrimaryCtxRetain)(&context, device) answered 2"),
            "{client:?}"
        );
    }
}

/// A limit set below what other processes already hold: refused, and nothing wraps around.
#[test]
fn usage_above_ones_own_limit() {
    let sim = Sim::new();
    let mut big = sim
        .client("hold")
        .arg("900")
        .memory("1GiB")
        .free_context()
        .spawn();
    assert_eq!(big.line("result"), "result=0");
    let small = sim
        .client("view")
        .memory("512MiB")
        .free_context()
        .run()
        .ok();
    assert_eq!(small.value("begin"), format!("0 0 {}", 512 * MIB));
    assert_eq!(small.value("alloc"), "2");
    let _ = big.finish().ok();
}

/// Rows 39 and 70.
#[test]
fn usage_goes_to_the_owning_device() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    prints(
        &sim,
        "two_devices",
        &[
            "begin=1024 1024",
            "held=24 924",
            "freed=1024 424",
            "created=24 24",
        ],
    );
}

/// Row 42, and the life of a physical allocation.
#[test]
fn physical_memory_until_its_last_reference() {
    let sim = Sim::new();
    prints(
        &sim,
        "mapped_memory",
        &[
            "begin=1024",
            "created=512",
            "released unmapped=1024",
            "mapped=512",
            "released while mapped=512",
            "unmapped while retained=512",
            "all gone=1024",
            "host=not refused",
            "host created=1024",
            "numa=not refused",
            "end=1024",
        ],
    );
}

/// Row 37.
#[test]
fn stream_ordered_memory() {
    let sim = Sim::new();
    let client = quota(sim.client("pools")).run().ok();
    for (when, free) in [
        ("begin", 1024),
        ("allocated", 768),
        ("freed in order", 1024),
        ("freed at once", 1024),
        ("linear gone", 1024),
        ("slack trimmed", 256),
        ("end", 1024),
    ] {
        assert_eq!(client.number(when), free, "{when}: {}", client.stdout);
    }
    assert!(sim.account().devices[0].peak_requested <= GIB);
}

/// Rows 44 and 50, and the families that are neither linear nor physical.
#[test]
fn pitched_managed_and_arrays() {
    let sim = Sim::new();
    prints(
        &sim,
        "families",
        &[
            "pitched: pitch 512, charged 2048 KiB",
            "managed: charged 102400 KiB",
            "managed: attribute 1, type 2",
            "array of one dimension: charged yes",
            "array of two dimensions: charged yes",
        ],
    );
}

/// Row 35.
#[test]
fn a_context_is_charged_once() {
    let sim = Sim::new();
    let with_context = |name: &str| {
        sim.client(name)
            .memory("1GiB")
            .env("GPU_QUOTA_CONTEXT", "256MiB")
    };
    let mut client = with_context("context_charge").spawn();
    client.line("released");
    // Between its last release and its next retain, all of the quota is there for others.
    let other = with_context("view").run().ok();
    assert_eq!(other.value("begin"), format!("0 {} {}", 768 * MIB, GIB));
    let client = client.finish().ok();
    for (when, free) in [
        ("retained", 768),
        ("released once", 768),
        ("retained again", 512),
        ("reset", 768),
    ] {
        assert_eq!(client.number(when), free, "{when}: {}", client.stdout);
    }
}

#[test]
fn a_destroyed_contexts_memory_is_given_back() {
    let sim = Sim::new();
    prints(&sim, "destroyed_context", &["free=1024"]);
}

/// Rows 10, 11 and 64: a driver from before stream-ordered allocation and the newer look-up. What it
/// lacks is absent, and every other hook works.
#[test]
fn a_driver_that_lacks_functions() {
    let old = driver_without(&["cuMemAllocAsync", "cuGetProcAddress_v2", "cuLaunchKernelEx"]);
    let sim = Sim::new().with("GPU_SIM_DRIVER", "11.4");
    let run = |bare: bool| {
        quota(sim.client("old_names"))
            .driver(old.path())
            .bare_if(bare)
            .run()
    };
    let bare = run(true).ok();
    let limited = run(false).ok();
    let names = |text: &str| text.lines().take(3).map(String::from).collect::<Vec<_>>();
    assert_eq!(names(&limited.stdout), names(&bare.stdout));
    assert_eq!(
        limited.stdout,
        "cuMemAllocAsync by look-up: absent\ncuGetProcAddress_v2 by look-up: absent\n\
         cuMemGetInfo_v2 by look-up: there\nblocks=4\n"
    );
    assert_eq!(limited.stderr, "");
    let client = quota(sim.client("blocks_proc_address"))
        .arg("v1")
        .driver(old.path())
        .run()
        .ok();
    assert_eq!(client.number("blocks"), 4);
}

/// Row 11: names that the library passes through are found by a program that is linked to them.
#[test]
fn a_linked_name_that_is_passed_through() {
    let sim = Sim::new();
    let bare = quota(sim.client("linked_ipc")).bare().run().ok();
    assert!(bare.stdout.starts_with("opened: "), "{bare:?}");
    assert_eq!(
        quota(sim.client("linked_ipc")).run().ok().stdout,
        bare.stdout
    );
}

/// Rows 71, 73: a process that sees only the second device, under that device's quota.
#[test]
fn visible_devices_are_known_by_uuid() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "24GiB,80GiB");
    let uuid = sim
        .client("init")
        .bare()
        .run()
        .ok()
        .value("uuid1")
        .to_string();
    for visible in ["1", &uuid] {
        let client = sim
            .client("blocks_dlsym")
            .memory(&format!("{uuid}=1GiB"))
            .free_context()
            .env("CUDA_VISIBLE_DEVICES", visible)
            .run()
            .ok();
        assert_eq!(
            (client.number("total"), client.number("blocks")),
            (GIB, 4),
            "{visible}"
        );
    }
    let account = sim.account();
    assert_eq!(account.devices[0].peak_requested, 0);
    assert_eq!(account.devices[1].peak_requested, GIB);
}

/// What is refused is refused by the quota alone: a device that is full says so itself.
#[test]
fn a_full_device_answers_for_itself() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2GiB");
    let client = sim.client("blocks_dlsym").memory("100GiB").run().ok();
    let bare = sim
        .client("blocks_dlsym")
        .memory("100GiB")
        .bare()
        .run()
        .ok();
    assert_eq!(client.number("blocks"), bare.number("blocks"));
    assert_eq!(client.number("result"), 2);
    assert_eq!(client.number("total"), bare.number("total"));
}

/// What is shown as free can be allocated, whatever the limit.
#[test]
fn a_limit_that_is_no_multiple() {
    let sim = Sim::new();
    let client = sim.client("odd_limit").memory("1000000");
    let _ = client.free_context().run().ok();
}
