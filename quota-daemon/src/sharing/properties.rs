//! What holds whatever containers say and whenever the controller is called.

use proptest::prelude::*;
use quota_abi::policy::{Loan, Row, Turn};
use quota_abi::sync::Ordering::Relaxed;

use super::fluid::{START, zero_row};
use super::{Controller, DeviceView, MS, Member, Reading, Settings, WHOLE, own_ppm};
use crate::model::{Compute, Uuid};

fn compute() -> impl Strategy<Value = Compute> {
    let cap = proptest::option::of(0..=1_000_000_u32);
    prop_oneof![
        6 => (0..=10_000_u32, cap).prop_map(|(weight, cap_ppm)| Compute::Share { weight, cap_ppm }),
        2 => (0..=1_000_000_u32).prop_map(|ppm| Compute::Limit { ppm }),
        1 => Just(Compute::Free),
    ]
}

/// Whatever a tenant may write, with what is plausible often enough.
fn word(now: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (0..200 * MS).prop_map(move |ago| now.saturating_sub(ago)),
        1 => (0..200 * MS).prop_map(move |ahead| now.saturating_add(ahead)),
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

prop_compose! {
    fn reading(now: u64)(refilled_at in word(now), used in word(now), waits in word(0), launches in word(0), busy: bool, ends_at in word(now), full: bool, unsure: bool) -> Reading {
        Reading { refilled_at, used, waits, launches, busy, ends_at, full, unsure }
    }
}

/// One member at one step.
#[derive(Debug, Clone)]
struct Moment {
    reading: Option<Reading>,
    priority: i32,
    compute: Option<Compute>,
}

fn moment(now: u64) -> impl Strategy<Value = Moment> {
    let reading = proptest::option::weighted(0.9, reading(now));
    (
        reading,
        -1..=1_i32,
        proptest::option::weighted(0.05, compute()),
    )
        .prop_map(|(reading, priority, compute)| Moment {
            reading,
            priority,
            compute,
        })
}

/// A pause, and what everybody says after it.
type Steps = Vec<(u64, Vec<Moment>)>;

fn steps(members: usize) -> impl Strategy<Value = Steps> {
    let step = (0..150 * MS).prop_flat_map(move |pause| {
        // Readings lie about the time of the step, which the next map makes absolute.
        (
            Just(pause),
            proptest::collection::vec(moment(START), members),
        )
    });
    proptest::collection::vec(step, 1..12)
}

fn everything() -> impl Strategy<Value = (bool, Vec<Compute>, Steps)> {
    (any::<bool>(), proptest::collection::vec(compute(), 1..8)).prop_flat_map(|(turns, members)| {
        let count = members.len();
        (Just(turns), Just(members), steps(count))
    })
}

/// What all that the controller takes for active may use together at `at`.
fn in_force(rows: &[Box<Row>], computes: &[Compute], at: u64) -> u64 {
    let mut sum = 0;
    for (row, compute) in rows.iter().zip(computes) {
        let active = row.active_until.load(Relaxed) > 0;
        if active && matches!(compute, Compute::Share { .. }) {
            let lent = Loan(row.loan.load(Relaxed)).rate(at).unwrap_or(0);
            sum += u64::from(lent.max(row.rate.load(Relaxed)));
        }
    }
    sum
}

proptest! {
    #[test]
    fn never_more_than_the_whole_is_given((turns, mut computes, steps) in everything()) {
        let rows: Vec<_> = computes.iter().map(|_| zero_row()).collect();
        let mut controller = Controller::new(Settings { turns });
        let mut now = START;
        for (pause, moments) in steps {
            // Between two steps loans only end.
            for at in [now, now + pause / 2, now + pause] {
                // With turns only one at a time has what it is lent.
                prop_assert!(turns || in_force(&rows, &computes, at) <= u64::from(WHOLE));
            }
            now += pause;
            for (compute, moment) in computes.iter_mut().zip(&moments) {
                *compute = moment.compute.unwrap_or(*compute);
            }
            for (row, compute) in rows.iter().zip(&computes) {
                row.rate.store(own_ppm(*compute, computes.iter().copied()).unwrap_or(0), Relaxed);
            }
            let rates: Vec<_> = rows.iter().map(|row| row.rate.load(Relaxed)).collect();
            let shifted = |reading: Reading| Reading {
                refilled_at: reading.refilled_at.wrapping_add(now - START),
                ..reading
            };
            let members = rows.iter().zip(&computes).zip(&moments).enumerate();
            let members = members.map(|(index, ((row, compute), moment))| Member {
                container: index as u64,
                compute: *compute,
                priority: moment.priority,
                observe: false,
                reading: moment.reading.map(shifted),
                row,
            });
            let view = DeviceView { uuid: Uuid([1; 16]), members: members.collect() };
            let free: Vec<_> = rows.iter().map(|row| !turn_of(row).is_on()).collect();
            let next = controller.step(now, &[view]);
            for (row, free) in rows.iter().zip(free) {
                // What it started while it was free to, it did not start in somebody's turn.
                let held = turn_of(row).is_on() && turn_of(row).until() == 0;
                prop_assert!(!(free && held) || row.since.load(Relaxed) == now);
            }
            check(&controller, now, next.is_some(), turns, &rows, &computes, &rates)?;
        }
    }
}

fn check(
    controller: &Controller,
    now: u64,
    goes_on: bool,
    turns: bool,
    rows: &[Box<Row>],
    computes: &[Compute],
    rates: &[u32],
) -> Result<(), TestCaseError> {
    let active = |row: &Row| row.active_until.load(Relaxed) > now;
    prop_assert!(turns || in_force(rows, computes, now) <= u64::from(WHOLE));
    prop_assert_eq!(goes_on, rows.iter().any(|row| active(row)));
    let mut holders = 0;
    for (index, (row, compute)) in rows.iter().zip(computes).enumerate() {
        prop_assert_eq!(row.rate.load(Relaxed), rates[index]);
        let lent = Loan(row.loan.load(Relaxed)).rate(now);
        prop_assert!(lent.is_none() || active(row), "lent to an idle one");
        prop_assert!(Loan(row.loan.load(Relaxed)).until() <= now + 100 * MS);
        match compute {
            Compute::Share { cap_ppm, .. } => {
                let all = if turns { WHOLE + 1 } else { WHOLE };
                let cap = cap_ppm.unwrap_or(all).max(1);
                prop_assert!(lent.unwrap_or(0) <= cap.min(all));
            }
            _ => prop_assert_eq!(lent, None),
        }
        let turn = turn_of(row);
        prop_assert!(turns || !turn.is_on());
        holders += u32::from(turn.is_on() && turn.may_run(now));
        let seen = controller.seen(now, Uuid([1; 16]), index as u64);
        prop_assert_eq!(seen.active, active(row));
        prop_assert!(seen.got_ppm <= WHOLE);
    }
    prop_assert!(holders <= 1, "{} have the turn", holders);
    if turns {
        return Ok(());
    }
    nothing_is_left(now, rows, computes)
}

fn turn_of(row: &Row) -> Turn {
    Turn(row.turn.load(Relaxed))
}

/// While no hard limit is active, all that nobody owns is lent, unless everybody has all that he may.
fn nothing_is_left(now: u64, rows: &[Box<Row>], computes: &[Compute]) -> Result<(), TestCaseError> {
    let mut given = 0;
    let (mut any, mut all_full) = (false, true);
    for (row, compute) in rows.iter().zip(computes) {
        if row.active_until.load(Relaxed) <= now {
            continue;
        }
        match compute {
            Compute::Limit { .. } => return Ok(()),
            Compute::Free => {}
            Compute::Share { cap_ppm, .. } => {
                any = true;
                let lent = Loan(row.loan.load(Relaxed)).rate(now).unwrap_or(0);
                let has = lent.max(row.rate.load(Relaxed));
                given += has;
                all_full &= has >= cap_ppm.unwrap_or(WHOLE).clamp(1, WHOLE);
            }
        }
    }
    prop_assert!(!any || all_full || given == WHOLE, "{given} given");
    Ok(())
}
