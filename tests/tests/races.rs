//! Many who ask for memory at the same time: never more than the limit, never less than fits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::sync::Barrier;

use quota_tests::{Client, GIB, MIB, Running, Sim, Steps};

const LIMIT: u64 = 2 * GIB;
/// Does not divide the limit.
const BLOCK: u64 = 7 * MIB;
/// For each round of the crowd; a machine with two cores runs hundreds of processes here.
const WATCHDOG: u64 = 150;

/// Room for the contexts of hundreds of processes, which no quota counts here.
fn machine() -> Sim {
    Sim::new()
        .with("GPU_SIM_DEVICES", "141GiB")
        .with("GPU_SIM_CONTEXT", "2MiB")
}

fn quota(client: Client) -> Client {
    client.memory("2GiB").free_context().watchdog(WATCHDOG)
}

/// So many processes with so many threads each take blocks at once, round after round. The simulator's account says that
/// they never had more than the limit, and that in the end less than one block is left.
#[track_caller]
fn race(processes: usize, threads: u32, rounds: u32) {
    let sim = machine();
    let mib = BLOCK / MIB;
    let mut clients: Vec<Running> = (0..processes)
        .map(|_| {
            let args = [mib.to_string(), threads.to_string(), rounds.to_string()];
            quota(sim.client("race").args(args)).spawn()
        })
        .collect();
    for client in &mut clients {
        client.line("ready");
    }
    for client in &mut clients {
        client.go_on();
    }
    let blocks: Vec<u64> = clients
        .iter_mut()
        .map(|client| client.line("blocks")["blocks ".len()..].parse().unwrap())
        .collect();
    let device = &sim.account().devices[0];
    let sum: u64 = blocks.iter().sum();
    let served = blocks.iter().filter(|blocks| **blocks > 0).count();
    println!(
        "{served} of {processes} processes got {sum} blocks, at most {} each",
        blocks.iter().max().unwrap()
    );
    assert_eq!(device.requested, sum * BLOCK);
    assert!(
        device.peak_requested <= LIMIT,
        "{} bytes at once",
        device.peak_requested
    );
    assert!(
        LIMIT - device.requested < BLOCK,
        "{} bytes are left: somebody was refused what fits",
        LIMIT - device.requested
    );
}

#[test]
fn two_processes_take_all_and_no_more() {
    race(2, 1, 20);
}

#[test]
fn eight_processes_take_all_and_no_more() {
    race(8, 1, 10);
}

#[test]
fn sixty_four_processes_take_all_and_no_more() {
    race(64, 1, 3);
}

/// As many as a busy server has.
#[test]
fn two_hundred_and_fifty_six_processes_take_all_and_no_more() {
    race(256, 1, 1);
}

#[test]
fn sixteen_threads_of_a_process_take_all_and_no_more() {
    race(1, 16, 20);
}

#[test]
fn threads_of_several_processes_take_all_and_no_more() {
    race(3, 4, 10);
}

/// One asks for `impossible` MiB again and again while 512 are held; another's 7 MiB fit, and are given every time.
#[track_caller]
fn the_impossible_beside_the_possible(
    impossible: u64,
    threads: u32,
    impossible_first: bool,
    times: u32,
) {
    let sim = machine();
    let mut holder = quota(sim.client("hold").arg("512")).spawn();
    assert_eq!(holder.line("result"), "result=0");
    let hammer = || {
        let args = [
            "impossible".to_owned(),
            impossible.to_string(),
            threads.to_string(),
        ];
        let mut client = quota(sim.client("ask_again").args(args)).spawn();
        client.line("asking");
        client
    };
    let first = impossible_first.then(hammer);
    let args = ["possible".to_owned(), "7".to_owned(), times.to_string()];
    let mut client = quota(sim.client("ask_again").args(args)).spawn();
    client.line("ready");
    let hammer = first.unwrap_or_else(hammer);
    let client = client.finish().ok();
    let tries = hammer.finish().ok().number("tries");
    println!(
        "{tries} times too much beside {times} times what fits, in {:?}",
        client.elapsed
    );
    assert!(tries > 100, "nothing stood in the way");
    assert_eq!(client.number("refused"), 0, "of {times} that fit");
    let _ = holder.finish().ok();
}

/// More than the limit: never even asked for.
#[test]
fn more_than_the_limit_hinders_nobody() {
    the_impossible_beside_the_possible(3000, 1, true, 20_000);
}

/// Less than the limit, but more than is left: whoever asks for it stands in the others' way while it asks.
#[test]
fn more_than_is_left_hinders_nobody() {
    the_impossible_beside_the_possible(2000, 1, true, 100_000);
}

#[test]
fn more_than_is_left_hinders_nobody_in_an_earlier_slot() {
    the_impossible_beside_the_possible(2000, 1, false, 100_000);
}

#[test]
fn more_than_is_left_asked_for_by_several_threads_hinders_nobody() {
    the_impossible_beside_the_possible(1537, 3, true, 20_000);
}

/// What one asks for that is stopped in the middle of asking stands in the way for a moment, not for as long as it is
/// stopped. When it goes on it asks anew, and is not admitted by what it had seen before.
#[test]
fn one_who_is_stopped_while_it_asks_hinders_nobody_for_long() {
    let sim = machine();
    let region = sim.region();
    let client = quota(sim.client("stopped").arg(&region))
        .memory("256MiB")
        .run()
        .ok();
    println!("{}", client.stdout);
    if client.stdout.starts_with("skipped") {
        return;
    }
    assert_eq!(client.number("asks"), 200);
    assert_eq!(client.number("beside"), 0, "100 MiB fit with what is held");
    assert_eq!(client.number("then"), 2, "200 MiB do not, with 132 held");
}

/// What a dead process held is there for all who ask next, also for those who find another clearing it up at that moment.
#[test]
fn what_the_dead_held_is_there_for_all_who_ask_at_once() {
    const ROUNDS: u32 = 20;
    let sim = machine();
    let start = || quota(sim.client("steps")).interpret_in_context();
    let mut askers: Vec<Steps> = (0..4).map(|_| start()).collect();
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let mut holder = start();
        let _ = holder
            .quiet(format!("cuMemAlloc_v2 &1 {}", 1900 * MIB))
            .ok();
        drop(holder);
        let together = Barrier::new(askers.len());
        let ask = |steps: &mut Steps| {
            together.wait();
            steps.quiet(format!("cuMemAlloc_v2 &1 {}", 300 * MIB)).code
        };
        std::thread::scope(|scope| {
            let ask = &ask;
            let asked = askers
                .iter_mut()
                .map(|steps| scope.spawn(move || ask(steps)));
            for asked in asked.collect::<Vec<_>>() {
                refused += u32::from(asked.join().unwrap() != Some(0));
            }
        });
        for steps in &mut askers {
            let _ = steps.quiet("cuMemFree_v2 $1");
        }
    }
    assert_eq!(refused, 0, "of {} that fit", ROUNDS * 4);
}
