//! Memory nodes of graphs: after every step the group is charged what the simulated device holds for them.

#![allow(
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{GIB, MIB, Sim};

const LIMIT: u64 = 256 * MIB;

/// Runs one case of `programs/graph_memory.c`, alone and with a limit of GPU time as well. Nothing is left at its end.
#[track_caller]
fn case(name: &str) {
    for compute in [None, Some("90%")] {
        let sim = Sim::new();
        let mut client = sim
            .client("graph_memory")
            .arg(name)
            .memory("256MiB")
            .free_context();
        if let Some(share) = compute {
            client = client.compute(share);
        }
        let client = client.run().ok();
        assert_eq!(client.stdout, "done\n");
        assert_eq!(client.stderr, "");
        let device = &sim.account().devices[0];
        assert_eq!(device.requested, 0, "{name}");
        if name != "more_than_the_sum" {
            assert!(device.peak_requested <= LIMIT, "{name}: {device:?}");
        }
        assert!(device.peak_requested < GIB);
    }
}

#[test]
fn nodes_made_in_every_way_are_charged_at_their_first_launch() {
    case("every_way");
}

#[test]
fn over_the_limit_the_driver_is_not_called() {
    case("refusals");
}

#[test]
fn an_upload_is_charged_and_a_trim_gives_back() {
    case("uploads");
}

#[test]
fn captured_allocations_are_charged_when_they_are_launched() {
    case("captured");
}

#[test]
fn graphs_that_share_memory_are_charged_once() {
    case("shared");
}

#[test]
fn memory_that_a_graph_leaves_behind() {
    case("left_behind");
}

#[test]
fn what_a_graph_leaves_behind_is_not_waited_for() {
    case("beside");
}

#[test]
fn where_only_the_sum_of_the_nodes_fits_an_upload_tells() {
    case("more_than_the_sum");
}

#[test]
fn slack_of_graphs_and_pools_serves_each_other() {
    case("slack");
}

#[test]
fn high_marks_are_not_believed() {
    case("attributes");
}
