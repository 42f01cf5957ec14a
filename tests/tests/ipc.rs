//! Memory that one process hands to another: charged once in a group, and to the importer's group where that is another.
//! `programs/ipc.c` checks what each of the two is charged after every step.

#![allow(
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Finished, Sim};

/// Runs one case: both in one group, or the importer in a group of its own.
#[track_caller]
fn pair(sim: &Sim, name: &str, group: Option<&str>, importers: Option<&str>) -> Finished {
    let mut client = sim.client("ipc").arg(name).memory("256MiB").free_context();
    if let Some(group) = group {
        client = client.arg(sim.group(group));
    }
    if let Some(memory) = importers {
        client = client.env("IMPORTER_MEMORY", memory);
    }
    let client = client.run().ok();
    assert_eq!(client.stdout, "done\n", "{name}");
    assert_eq!(client.stderr, "", "{name}");
    assert_eq!(sim.account().devices[0].requested, 0, "{name}");
    client
}

#[track_caller]
fn in_one_group(name: &str) {
    let _ = pair(&Sim::new(), name, None, None);
}

#[track_caller]
fn in_two_groups(name: &str) {
    let _ = pair(&Sim::new(), name, Some("importer"), None);
}

#[test]
fn within_a_group_it_is_charged_once() {
    in_one_group("open_and_close");
}

#[test]
fn to_another_group_it_is_charged_as_well() {
    in_two_groups("open_and_close");
}

/// How large it is only the driver can tell: it is asked, and what does not fit is closed again.
#[test]
fn what_does_not_fit_into_the_importers_group_is_closed_again() {
    let _ = pair(&Sim::new(), "refused", Some("importer"), Some("32MiB"));
}

#[test]
fn the_importers_context_takes_its_mappings_along() {
    in_one_group("importers_context_goes");
    in_two_groups("importers_context_goes");
}

#[test]
fn an_exporter_that_frees_first_leaves_the_charge_to_who_still_holds_the_memory() {
    in_one_group("exporter_frees_first");
    in_two_groups("exporter_frees_first");
}

/// The simulated device, too, tells the two apart.
#[test]
fn a_place_that_is_taken_again_is_another_allocation() {
    in_one_group("place_again");
}

#[test]
fn an_exporter_that_is_killed_leaves_the_charge_to_who_still_holds_the_memory() {
    in_one_group("exporter_is_killed");
    in_two_groups("exporter_is_killed");
}

#[test]
fn pointers_of_another_processs_pool() {
    in_one_group("pool");
    in_two_groups("pool");
}
