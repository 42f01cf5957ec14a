use super::*;
use crate::region::Mapped;
use std::sync::atomic::AtomicBool;

const KEY: u64 = 64 << 20;

fn region() -> Mapped {
    let region = Mapped::private().unwrap();
    region.header.high_water.store(512, Ordering::Relaxed);
    region
}

fn held(region: &Region, slot: usize) -> u64 {
    devices::ledger(region, 0).unwrap().held_by(slot)
}

/// What a process that dies leaves is reaped so, in this order.
fn dies(region: &Region, slot: usize) {
    reap(region, slot);
    let all = held(region, slot);
    devices::ledger(region, 0).unwrap().refund(slot, all);
}

#[test]
fn the_charge_passes_on_as_long_as_anybody_holds_the_memory() {
    let region = region();
    devices::ledger(&region, 0).unwrap().force(1, KEY);
    publish(&region, 1, 0, KEY, KEY).unwrap();
    let third = hold(&region, 3, 0, KEY).unwrap();
    let second = hold(&region, 2, 0, KEY).unwrap();
    assert_eq!(held(&region, 2) + held(&region, 3), 0);
    dies(&region, 1);
    assert_eq!((held(&region, 1), held(&region, 2)), (0, KEY));
    let_go(&region, 2, second);
    assert_eq!((held(&region, 2), held(&region, 3)), (0, KEY));
    let_go(&region, 3, third);
    assert_eq!(held(&region, 3), 0);
    assert_eq!(hold(&region, 2, 0, KEY), None, "the row is free");
}

#[test]
fn a_release_before_the_exporter_ends_changes_nothing() {
    let region = region();
    devices::ledger(&region, 0).unwrap().force(1, KEY);
    publish(&region, 1, 0, KEY, KEY).unwrap();
    let row = hold(&region, 2, 0, KEY).unwrap();
    let_go(&region, 2, row);
    assert_eq!((held(&region, 1), held(&region, 2)), (KEY, 0));
    dies(&region, 1);
    assert_eq!(held(&region, 1), 0);
    assert_eq!(hold(&region, 2, 0, KEY), None);
}

#[test]
fn each_import_of_a_process_needs_a_row_of_its_own() {
    let region = region();
    publish(&region, 1, 0, KEY, KEY).unwrap();
    publish(&region, 1, 0, KEY, KEY).unwrap();
    let (a, b) = (hold(&region, 2, 0, KEY), hold(&region, 2, 0, KEY));
    assert!(a.is_some() && b.is_some() && a != b);
    assert_eq!(hold(&region, 2, 0, KEY), None);
    assert!(hold(&region, 3, 0, KEY).is_some(), "another process");
    assert_eq!(hold(&region, 2, 1, KEY), None, "another device");
    assert_eq!(hold(&region, 2, 0, KEY + 1), None, "another key");
}

#[test]
fn what_is_withdrawn_passes_to_its_holders_and_is_then_found_no_more() {
    let region = region();
    let row = publish(&region, 1, 0, KEY, KEY).unwrap();
    let holder = hold(&region, 2, 0, KEY).unwrap();
    withdraw(&region, 1, row);
    assert_eq!(held(&region, 2), KEY);
    let_go(&region, 2, holder);
    assert_eq!(held(&region, 2), 0);
    assert_eq!(hold(&region, 3, 0, KEY), None);
    let again = publish(&region, 3, 0, KEY, KEY).unwrap();
    assert_ne!(again, row);
    hold(&region, 2, 0, KEY).unwrap();
    let_go(&region, 2, holder);
    withdraw(&region, 1, row);
    dies(&region, 3);
    assert_eq!(held(&region, 2), KEY, "the old row ends nothing of the new");
}

#[test]
fn a_dead_holder_is_passed_over_and_a_dead_publisher_leaves_no_row() {
    let region = region();
    publish(&region, 1, 0, KEY, KEY).unwrap();
    hold(&region, 2, 0, KEY).unwrap();
    hold(&region, 3, 0, KEY).unwrap();
    dies(&region, 2);
    dies(&region, 1);
    assert_eq!((held(&region, 2), held(&region, 3)), (0, KEY));
    // Claimed, and killed before it was written.
    let row = &region.exports[1];
    row.owner.store(owner(4, 0, 7), Ordering::Relaxed);
    dies(&region, 4);
    assert_eq!(row.owner.load(Ordering::Relaxed) & SLOT, 0);
}

#[test]
fn rows_run_out_and_then_importers_are_charged() {
    let region = region();
    let count = (0..)
        .take_while(|_| publish(&region, 1, 0, KEY, KEY).is_some())
        .count();
    assert_eq!(count, crate::layout::EXPORTS);
    dies(&region, 1);
    assert!(publish(&region, 2, 0, KEY, KEY).is_some());
}

/// Holders come and go while the exporter dies: whoever holds it at the end is charged for it, and only they.
#[test]
fn no_race_loses_the_charge() {
    for round in 0..300 {
        let region = region();
        let region = &*region;
        publish(region, 0, 0, KEY, KEY).unwrap();
        devices::ledger(region, 0).unwrap().force(0, KEY);
        let go = AtomicBool::new(false);
        let last = std::thread::scope(|scope| {
            let holders: Vec<_> = (1..4)
                .map(|slot| {
                    let go = &go;
                    scope.spawn(move || {
                        while !go.load(Ordering::Acquire) {}
                        for _ in 0..round % 5 {
                            if let Some(row) = hold(region, slot, 0, KEY) {
                                let_go(region, slot, row);
                            }
                        }
                        hold(region, slot, 0, KEY).map(|row| (slot, row))
                    })
                })
                .collect();
            go.store(true, Ordering::Release);
            dies(region, 0);
            holders
                .into_iter()
                .filter_map(|holder| holder.join().unwrap())
                .collect::<Vec<_>>()
        });
        let all = || devices::ledger(region, 0).unwrap().usage();
        assert_eq!(
            all(),
            if last.is_empty() { 0 } else { KEY },
            "round {round}"
        );
        for (slot, row) in last {
            let_go(region, slot, row);
        }
        assert_eq!(all(), 0, "round {round}");
    }
}
