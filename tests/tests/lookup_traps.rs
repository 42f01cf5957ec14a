//! The traps of looking functions up: who asks, with which handle, when, and from how small a stack.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, Sim, artefacts, library};

/// Runs a program bare and preloaded; both end well, with the same words.
#[track_caller]
fn same_as_bare(name: &str, client: &dyn Fn(&Sim) -> Client) -> String {
    let run = |bare: bool| {
        let sim = Sim::new();
        client(&sim)
            .memory("1GiB")
            .free_context()
            .bare_if(bare)
            .run()
            .ok()
    };
    let (bare, preloaded) = (run(true), run(false));
    assert!(!bare.stdout.is_empty(), "{name} says nothing");
    assert_eq!(preloaded.stdout, bare.stdout, "{name}");
    assert_eq!(preloaded.stderr, bare.stderr, "{name}");
    preloaded.stdout
}

/// Rows 2 and 3: a plain wrapper of `dlsym` makes such libraries find themselves.
#[test]
fn next_is_relative_to_the_caller() {
    for with_driver in [true, false] {
        let words = same_as_bare("next", &|sim| {
            let client = sim.client("next");
            if with_driver {
                client
            } else {
                client.no_driver()
            }
        });
        assert!(words.contains("which: 11\nstable: 1\n"), "{words}");
        assert!(words.contains("next cuInit: nowhere\n"), "{words}");
    }
}

/// Rows 1 and 4: no name is looked up elsewhere than where the caller asked.
#[test]
fn a_handle_is_honoured() {
    let words = same_as_bare("handles", &|sim| {
        sim.client("handles").arg(library("other_driver"))
    });
    assert_eq!(words.matches(": 1\n").count(), 22, "{words}");
    assert_eq!(
        words.matches("its cuInit answers 1007\n").count(),
        2,
        "{words}"
    );
}

#[test]
fn a_stub_that_exports_the_drivers_names_is_limited() {
    let sim = Sim::new();
    let client = sim
        .client("blocks_stub")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    assert_eq!(
        (
            client.number("init"),
            client.number("blocks"),
            client.number("result")
        ),
        (0, 4, 2)
    );
    assert_eq!(client.stderr, "");
}

#[test]
fn a_stub_bound_to_its_own_names_is_limited() {
    let sim = Sim::new();
    let client = sim
        .client("stub_symbolic")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    assert_eq!(client.stdout, "init=0\nblocks=4\nresult=2\n");
    assert_eq!(client.stderr, "");
}

/// Such a library's references go past every preloaded one; Taichi is one.
#[test]
fn deep_bound_libraries_are_limited() {
    same_as_bare("deepbind", &|sim| {
        sim.client("deepbind").arg(library("deep_library"))
    });
    let sim = Sim::new();
    let client = sim
        .client("deepbind")
        .arg(library("deep_library"))
        .arg("blocks")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    // The program itself holds a little, so the fourth block does not fit.
    assert_eq!(client.number("blocks"), 3);
}

#[test]
fn the_driver_may_be_closed_and_opened_again() {
    same_as_bare("close_and_open", &|sim| sim.client("close_and_open"));
}

#[test]
fn threads_race_for_the_first_look_up() {
    for _ in 0..40 {
        let sim = Sim::new();
        let client = sim
            .client("racing_lookups")
            .memory("1GiB")
            .free_context()
            .run()
            .ok();
        assert_eq!(client.number("blocks"), 16);
    }
}

/// The smallest stack that the C library allows, for look-ups; what the bare driver needs as well,
/// for calls.
#[test]
fn small_stacks() {
    same_as_bare("small_stack", &|sim| {
        sim.client("small_stack").args(["16384", "look_up"])
    });
    same_as_bare("small_stack", &|sim| {
        sim.client("small_stack")
            .args(["65536", "call"])
            .compute("20%")
    });
    same_as_bare("small_init", &|sim| {
        // A driver that needs next to nothing itself.
        sim.client("small_init")
            .arg("24576")
            .env("GPU_SIM_MODE", "null")
            .compute("20%")
    });
}

/// Libraries go on calling the driver after `main` has returned.
#[test]
fn calls_at_the_end_of_threads_and_of_the_process() {
    let words = same_as_bare("at_exit", &|sim| sim.client("at_exit"));
    for place in [
        "thread's end",
        "registered before",
        "registered after",
        "destructor",
    ] {
        assert!(words.contains(&format!("{place}: alloc ")), "{words}");
    }
}

/// Before any constructor has run, the library's own included.
#[test]
fn calls_before_main() {
    let sim = Sim::new();
    let client = sim
        .client("early_calls")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    assert_eq!(
        client.stdout,
        "total in a constructor: 1024 MiB\ninit 0, alloc 201, constructed 0\nblocks=4\n"
    );
    assert_eq!(client.stderr, "");
}

#[test]
fn a_driver_in_another_namespace_is_left_alone() {
    let words = same_as_bare("other_namespace", &|sim| sim.client("other_namespace"));
    assert!(
        words.contains("apart: the driver\ndefault: nowhere\n"),
        "{words}"
    );
}

/// By /etc/ld.so.preload and by LD_PRELOAD, under two paths: two copies, and one quota.
#[test]
fn a_library_preloaded_twice_limits_once() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("libquota_shim.so");
    std::fs::copy(&artefacts().shim, &copy).unwrap();
    let both = format!("{} {}", artefacts().shim.display(), copy.display());
    for name in ["blocks_dlsym", "blocks_linked"] {
        let sim = Sim::new();
        let client = sim
            .client(name)
            .memory("1GiB")
            .free_context()
            .env("LD_PRELOAD", &both)
            .run()
            .ok();
        assert_eq!(
            (client.number("blocks"), client.number("driver_calls")),
            (4, 4),
            "{name}"
        );
        assert_eq!(client.number("free_later"), 256 << 20, "{name}");
        assert_eq!(client.stderr, "");
    }
}
