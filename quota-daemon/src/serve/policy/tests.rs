//! Policies written into a file of their own.

use super::*;
use quota_abi::policy::map;
use std::os::fd::AsFd;

fn device(number: u8) -> Device {
    Device {
        uuid: Uuid([number; 16]),
        index: u32::from(number),
        name: "GPU".into(),
        memory_bytes: 1 << 30,
        mig: false,
    }
}

fn spec(devices: &[(Selector, Quota)]) -> Spec {
    Spec {
        name: "a".into(),
        origin: Origin::Config,
        cgroups: Vec::new(),
        every: None,
        devices: devices.iter().copied().collect(),
    }
}

fn quota(bytes: u64, compute: Compute) -> Quota {
    Quota {
        memory_bytes: Some(bytes),
        compute,
        ..Quota::default()
    }
}

fn policy() -> map::Write {
    map::Write::from_file(tempfile::tempfile().unwrap().as_fd()).unwrap()
}

fn write(policy: &Policy, devices: &[Device], spec: &Spec) -> bool {
    World::new(devices, &BTreeMap::new(), [spec].into_iter()).write(policy, spec)
}

#[test]
fn only_what_differs_raises_the_generation() {
    let (policy, devices) = (policy(), [device(1)]);
    let spec = spec(&[(
        Selector::Index(1),
        quota(1025, Compute::Limit { ppm: 300_000 }),
    )]);
    let generation = || policy.header.generation.load(Ordering::Relaxed);
    assert!(write(&policy, &devices, &spec));
    assert_eq!(generation(), 1);
    assert!(!write(&policy, &devices, &spec));
    assert_eq!(generation(), 1);
    let row = policy.row(&[1; 16]).unwrap();
    assert_eq!(row.memory.load(Ordering::Relaxed), 1024);
    assert_eq!(row.context.load(Ordering::Relaxed), CONTEXT);
    assert_eq!(row.rate_at(0), Some(300_000));
}

#[test]
fn a_device_that_is_taken_away_comes_back_to_its_own_row() {
    let (policy, devices) = (policy(), [device(1), device(2), device(3)]);
    let of = |number: u8| {
        (
            Selector::Uuid(Uuid([number; 16])),
            quota(4096, Compute::Free),
        )
    };
    write(&policy, &devices, &spec(&[of(1), of(2)]));
    let first = policy.row(&[1; 16]).unwrap();
    write(&policy, &devices, &spec(&[of(2)]));
    assert!(policy.row(&[1; 16]).is_none());
    assert_eq!(
        first.memory.load(Ordering::Relaxed),
        0,
        "who knows the row finds no room"
    );
    write(&policy, &devices, &spec(&[of(2), of(3)]));
    assert!(!std::ptr::eq(first, policy.row(&[3; 16]).unwrap()));
    write(&policy, &devices, &spec(&[of(1), of(2), of(3)]));
    assert!(std::ptr::eq(first, policy.row(&[1; 16]).unwrap()));
    assert_eq!(first.memory.load(Ordering::Relaxed), 4096);
}

#[test]
fn a_device_that_nvml_has_lost_keeps_its_limits() {
    let policy = policy();
    let spec = spec(&[(Selector::Index(1), quota(4096, Compute::Free))]);
    write(&policy, &[device(1)], &spec);
    assert!(!write(&policy, &[], &spec));
    assert!(policy.row(&[1; 16]).is_some());
}

#[test]
fn shares_are_by_weight_over_all_containers_of_a_device() {
    let (policy, devices) = (policy(), [device(1)]);
    let of = |weight| {
        let share = Compute::Share {
            weight,
            cap_ppm: None,
        };
        spec(&[(Selector::Index(1), quota(4096, share))])
    };
    let (five, ten, contexts) = (of(5), of(15), BTreeMap::new());
    let world = World::new(&devices, &contexts, [&five, &ten].into_iter());
    world.write(&policy, &five);
    assert_eq!(policy.row(&[1; 16]).unwrap().rate_at(0), Some(250_000));
}
