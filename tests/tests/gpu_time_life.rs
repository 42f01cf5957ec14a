//! GPU time while processes, threads and what they launch on come and go. The judge is the
//! simulator's account. Bounds are wide, for machines where tests compete for two cores.

use std::time::Duration;

use quota_tests::Sim;

/// The per mille of its device's time that `share` got.
fn share(sim: &Sim, quota: &str, args: &[&str]) -> u64 {
    let client = sim.client("share").args(args).compute(quota);
    client.watchdog(60).run().ok().number("permille")
}

#[test]
fn streams_contexts_modules_captures_and_graphs_come_and_go() {
    for quota in ["none", "30%", "5%"] {
        let sim = Sim::new();
        let client = sim.client("gpu_time_churn").arg("1.5").compute(quota);
        let finished = client.watchdog(90).run().ok();
        assert_eq!(finished.stdout, "done\n", "{quota}");
        assert_eq!(finished.stderr, "", "{quota}");
    }
}

/// Rows 17, 18: whoever is killed, wherever, leaves an account that works, and no debt that it did
/// not make.
#[test]
fn killed_processes_leave_a_bucket_that_works() {
    let sim = Sim::new();
    for round in 0..20_u64 {
        let mut client = sim
            .client("share")
            .args(["launch", "30", "50000"])
            .compute("30%")
            .spawn();
        // Not at the same point of their lives.
        std::thread::sleep(Duration::from_millis(15 + round * 7 % 60));
        client.kill();
    }
    let permille = share(&sim, "30%", &["launch", "1.5", "100000"]);
    println!("after twenty kills: {permille} per mille of 300");
    assert!((150..=400).contains(&permille), "{permille} per mille");
}

/// What a thread takes and does not spend is lost, so a new thread takes little.
#[test]
fn threads_of_one_launch_each_get_their_share() {
    let sim = Sim::new();
    let client = sim.client("gpu_time_threads").args(["1.5", "100000"]);
    let permille = client.compute("10%").run().ok().number("permille");
    println!("threads of one launch: {permille} per mille of 100");
    assert!((40..=140).contains(&permille), "{permille} per mille");
}

/// A process that starts anew does not start without the debt of the one before.
#[test]
fn debt_is_inherited() {
    let sim = Sim::new();
    let long = || {
        let client = sim.client("share").args(["launch", "0.01", "300000000"]);
        client.compute("30%").watchdog(60).run().ok().elapsed
    };
    let first = long();
    let second = long();
    println!("first {first:?}, second {second:?}");
    // The first one's kernels of 300 ms are worth a second each.
    assert!(second > Duration::from_millis(900), "{second:?}");
}

/// Each process enforces its own rate on the common sum: 60 % is the most that the two may have, and
/// the slower one stands back while they are above 30 %.
#[test]
fn two_rates_in_one_group() {
    let sim = Sim::new();
    let client = |quota: &str| {
        let client = sim.client("share").args(["launch", "1.5", "100000"]);
        client.compute(quota).spawn()
    };
    let (slow, fast) = (client("30%"), client("60%"));
    let (slow, fast) = (slow.finish().ok(), fast.finish().ok());
    let permille = fast.number("permille").max(slow.number("permille"));
    let (slow, fast) = (slow.number("launches"), fast.number("launches"));
    println!("{permille} per mille of 600, launches {slow} and {fast}");
    assert!(permille <= 700, "{permille} per mille");
    assert!(slow < fast, "{slow} and {fast} launches");
}

/// Row 61, as far as a cap goes: two groups that want the device at once, each at most its share.
#[test]
fn two_groups_at_once_stay_below_their_shares() {
    for kernel_ns in ["20000", "1000000", "5000000"] {
        let sim = Sim::new();
        let client = |group: &str, quota: &str| {
            let client = sim.client("share").args(["launch", "2", kernel_ns]);
            let client = client.env("GPU_QUOTA_GROUP", sim.group(group));
            client.compute(quota).spawn()
        };
        let clients = [client("a", "30%"), client("b", "60%")];
        let got = clients.map(|client| {
            let finished = client.finish().ok();
            let work = finished.number("launches") * kernel_ns.parse::<u64>().unwrap();
            work * 1000 / finished.number("wall_ns")
        });
        println!("{kernel_ns} ns: {got:?} per mille of 300 and 600");
        // What was launched last may still have to run: no more than 4 ms of it, and one kernel.
        assert!(got[0] <= 340 && got[1] <= 640, "{kernel_ns} ns: {got:?}");
        assert!(got[0] >= 50 && got[1] >= 150, "{kernel_ns} ns: {got:?}");
    }
}
