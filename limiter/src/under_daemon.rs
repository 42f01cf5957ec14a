//! The engine under a daemon, in virtual time.

use core::cell::Cell;

use quota_abi::policy::{Loan, Row, Turn, mode};
use quota_abi::sync::Ordering::Relaxed;

use crate::gpu::Gpu;
use crate::model::{FOREVER, MS, Model, Process, US};

/// Two streams that wait for no other.
const ONE: usize = 0x5000;
const TWO: usize = 0x6000;

/// The daemon is there, and will be.
fn alive(row: &Row) {
    row.active_until.store(FOREVER, Relaxed);
}

fn change(row: &Row, how: impl FnOnce(&Row)) {
    how(row);
    row.wake.fetch_add(1, Relaxed);
}

/// Launches without a pause until `end`; the per mille of the time that the GPU was busy.
fn keep_busy(process: &Process, model: &Model, end: u64) -> u64 {
    let begin = model.now();
    while model.now() < end {
        process.launch(model, ONE, 7, 100 * US);
    }
    model.busy(begin, model.now()) * 1000 / (model.now() - begin)
}

#[test]
fn a_rate_holds_and_a_change_of_it_does_too() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(300_000));
    alive(row);
    keep_busy(&process, &model, model.now() + 200 * MS);
    let share = keep_busy(&process, &model, model.now() + 1000 * MS);
    assert!((290..=310).contains(&share), "{share}");
    row.rate.store(100_000, Relaxed);
    keep_busy(&process, &model, model.now() + 200 * MS);
    let share = keep_busy(&process, &model, model.now() + 1000 * MS);
    assert!((90..=110).contains(&share), "{share}");
}

#[test]
fn a_loan_is_used_and_runs_out_by_the_clock() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(200_000));
    alive(row);
    keep_busy(&process, &model, model.now() + 200 * MS);
    let end = model.now() + 500 * MS;
    row.loan.store(Loan::new(800_000, end).0, Relaxed);
    let share = keep_busy(&process, &model, end);
    assert!((760..=820).contains(&share), "{share}");
    keep_busy(&process, &model, model.now() + 50 * MS);
    let share = keep_busy(&process, &model, model.now() + 500 * MS);
    assert!((190..=210).contains(&share), "{share}");
}

#[test]
fn the_whole_device_is_counted_and_not_waited_for() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(200_000));
    alive(row);
    row.loan.store(Loan::new(1_000_000, FOREVER).0, Relaxed);
    let begin = model.now();
    let share = keep_busy(&process, &model, begin + 1000 * MS);
    assert!(share > 970, "{share}");
    let (used, busy) = (process.bucket.used(), model.busy(begin, model.now()));
    assert!(used.abs_diff(busy) < busy / 50 + 5 * MS, "{used} of {busy}");
    // What was charged too much meanwhile is no debt when the loan is over.
    assert!(process.bucket.level() > -10_000_000);
}

/// A launch that waits for two seconds at one percent.
fn deep_in_debt(model: &Model, process: &Process) {
    process.launch(model, ONE, 7, 20 * MS);
    model.synchronise(ONE);
    for _ in 0..2 {
        process.launch(model, ONE, 7, 20 * MS);
        model.synchronise(ONE);
    }
}

#[test]
fn a_raised_rate_wakes_what_waits() {
    let waits = |raised: bool| {
        let (model, (process, _, row)) = (Model::new(), Process::ruled(10_000));
        alive(row);
        deep_in_debt(&model, &process);
        if raised {
            model.meanwhile(5 * MS, move || {
                change(row, |row| row.rate.store(900_000, Relaxed));
            });
        }
        let begin = model.now();
        process.launch(&model, ONE, 7, 20 * MS);
        model.now() - begin
    };
    assert!(waits(false) > 1000 * MS, "{}", waits(false));
    assert!(waits(true) < 60 * MS, "{}", waits(true));
}

#[test]
fn a_limit_lifted_lets_go_what_waits_and_one_set_holds() {
    let (model, (process, policy, row)) = (Model::new(), Process::ruled(10_000));
    alive(row);
    deep_in_debt(&model, &process);
    model.meanwhile(5 * MS, move || {
        change(row, |row| row.mode.store(0, Relaxed));
        policy.header.generation.fetch_add(1, Relaxed);
    });
    let begin = model.now();
    process.launch(&model, ONE, 7, MS);
    assert!(model.now() - begin < 10 * MS);
    assert!(process.engine.has_news());
    let share = keep_busy(&process, &model, model.now() + 100 * MS);
    assert!(share > 950, "{share}");
    assert!(!process.engine.has_news());
    model.synchronise(ONE);

    row.rate.store(300_000, Relaxed);
    row.mode.store(mode::COMPUTE, Relaxed);
    policy.header.generation.fetch_add(1, Relaxed);
    assert!(process.engine.has_news());
    process.engine.take_news();
    keep_busy(&process, &model, model.now() + 200 * MS);
    let share = keep_busy(&process, &model, model.now() + 1000 * MS);
    assert!((290..=310).contains(&share), "{share}");
}

/// It uses all of the time, where it may 30 %: each millisecond's work would have waited for 2.3.
#[test]
fn observed_nothing_waits_and_what_would_have_is_counted() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(300_000));
    alive(row);
    row.mode.store(mode::COMPUTE | mode::OBSERVE, Relaxed);
    for _ in 0..1000 {
        process.launch(&model, ONE, 7, MS);
        model.synchronise(ONE);
    }
    assert_eq!(model.slept.get(), 0);
    let waited = process.bucket.read().waited / MS;
    assert!((2100..=2500).contains(&waited), "{waited}");
}

#[test]
fn a_launch_waits_for_its_turn() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    alive(row);
    process.launch(&model, ONE, 7, 100 * US);
    model.synchronise(ONE);
    row.turn.store(Turn::others(1).0, Relaxed);
    process.thread.drop_batch();
    let end = model.now() + 100 * MS;
    model.meanwhile(30 * MS, move || {
        change(row, |row| row.turn.store(Turn::own(2, end).0, Relaxed));
    });
    let begin = model.now();
    process.launch(&model, ONE, 7, 100 * US);
    let waited = model.now() - begin;
    assert!((30 * MS..40 * MS).contains(&waited), "{waited}");
    assert_eq!(process.bucket.read().forced, 0);
}

#[test]
fn a_turn_that_never_comes_is_not_waited_for_for_ever() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    alive(row);
    // Nothing is in flight that could wait for it.
    row.turn.store(Turn::others(1).0, Relaxed);
    let begin = model.now();
    process.launch(&model, TWO, 7, 100 * US);
    let waited = model.now() - begin;
    assert!((30_000 * MS..30_010 * MS).contains(&waited), "{waited}");
    assert_eq!(process.bucket.read().forced, 1);
}

/// Else the daemon would take the container for an idle one, and end the turns.
#[test]
fn a_container_whose_launch_waits_for_long_is_heard_of() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    alive(row);
    row.turn.store(Turn::others(1).0, Relaxed);
    let bucket = process.bucket;
    let look = model.now() + 20_000 * MS;
    let heard = &*Box::leak(Box::new(Cell::new(0)));
    model.meanwhile(20_000 * MS, move || heard.set(bucket.refilled_at()));
    process.launch(&model, TWO, 7, 100 * US);
    let ago = look.saturating_sub(heard.get()) / MS;
    assert!(ago <= 300, "{ago} ms ago");
}

#[test]
fn without_a_daemon_alive_there_are_no_turns() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    row.active_until.store(model.now(), Relaxed);
    row.turn.store(Turn::others(1).0, Relaxed);
    let begin = model.now();
    process.launch(&model, ONE, 7, 100 * US);
    assert!(model.now() - begin < MS);
}

/// A kernel spins until the next launch has run, and that is not the container's to launch now.
#[test]
fn work_that_waits_for_the_launch_is_not_kept_waiting_for_the_turn() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    alive(row);
    for _ in 0..20 {
        process.launch(&model, ONE, 7, 100 * US);
        model.synchronise(ONE);
        process.launch(&model, TWO, 8, 100 * US);
        model.synchronise(TWO);
    }
    process.launch(&model, ONE, 7, FOREVER);
    process.thread.drop_batch();
    row.turn.store(Turn::others(1).0, Relaxed);
    let begin = model.now();
    process.launch(&model, TWO, 8, 100 * US);
    let waited = model.now() - begin;
    assert!(waited < 10 * MS, "{waited}");
}

#[test]
fn the_daemon_is_told_of_a_beginning_and_not_more_often_than_it_needs() {
    let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
    keep_busy(&process, &model, model.now() + 50 * MS);
    // It does not hear: again each 5 ms.
    assert!((9..=11).contains(&model.rung.get()), "{}", model.rung.get());
    alive(row);
    let before = Cell::new(model.rung.get());
    keep_busy(&process, &model, model.now() + 50 * MS);
    assert_eq!(model.rung.get(), before.get());
}

/// A kernel of 100 us takes 300 us beside another container.
#[test]
fn others_slices_are_not_charged_while_others_are_active() {
    let charged = |active: u32| {
        let (model, (process, _, row)) = (Model::new(), Process::ruled(900_000));
        alive(row);
        row.active.store(1, Relaxed);
        for _ in 0..50 {
            process.launch(&model, ONE, 7, 100 * US);
            model.synchronise(ONE);
            process.engine.resume(&model, &process.thread);
        }
        row.active.store(active, Relaxed);
        let before = process.bucket.used();
        for _ in 0..500 {
            process.launch(&model, ONE, 7, 300 * US);
            model.synchronise(ONE);
            process.engine.resume(&model, &process.thread);
        }
        (process.bucket.used() - before) / 500 / US
    };
    let (beside, alone) = (charged(2), charged(1));
    assert!((90..=115).contains(&beside), "{beside} us");
    assert!((250..=310).contains(&alone), "{alone} us");
}
