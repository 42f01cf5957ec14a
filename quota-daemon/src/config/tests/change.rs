//! Changes by a command or a program.

use super::*;
use crate::api::{Change, Kind};
use crate::model::{Compute, Device};

fn change() -> Change {
    Change {
        container: "a".into(),
        ..Change::default()
    }
}

fn device(byte: u8, index: u32) -> Device {
    Device {
        uuid: Uuid([byte; 16]),
        index,
        name: "GPU".into(),
        memory_bytes: 8 * GIB,
        mig: false,
    }
}

fn spec() -> Spec {
    Spec {
        name: "a".into(),
        origin: Origin::Config,
        cgroups: Vec::new(),
        every: Some(Quota {
            memory_bytes: Some(GIB),
            compute: Compute::Share {
                weight: 5,
                cap_ppm: Some(500_000),
            },
            ..Quota::default()
        }),
        devices: BTreeMap::new(),
    }
}

/// What a change makes of [`spec`].
fn changed(change: &Change) -> Result<Quota, String> {
    let mut spec = spec();
    let result = apply(change, &mut spec, &[device(7, 0)], None);
    result.map_err(|refused| refused.text)?;
    Ok(spec.every.unwrap())
}

#[test]
fn what_is_not_said_stays() {
    let before = spec().every.unwrap();
    assert_eq!(changed(&change()), Ok(before));
    let memory = Change {
        memory: Some("2GiB".into()),
        ..change()
    };
    assert_eq!(changed(&memory).unwrap().memory_bytes, Some(2 * GIB));
    assert_eq!(changed(&memory).unwrap().compute, before.compute);
    let weight = Change {
        weight: Some(9),
        ..change()
    };
    let expected = Compute::Share {
        weight: 9,
        cap_ppm: Some(500_000),
    };
    assert_eq!(changed(&weight).unwrap().compute, expected);
    let free = Change {
        compute: Some("none".into()),
        ..change()
    };
    assert_eq!(changed(&free).unwrap().compute, Compute::Free);
    let uncapped = Change {
        cap: Some("none".into()),
        ..change()
    };
    let expected = Compute::Share {
        weight: 5,
        cap_ppm: None,
    };
    assert_eq!(changed(&uncapped).unwrap().compute, expected);
}

#[test]
fn nonsense_changes_nothing_and_says_why() {
    for (change, told) in [
        (
            Change {
                memory: Some("much".into()),
                ..change()
            },
            "memory \"much\" is not a positive number",
        ),
        (
            Change {
                compute: Some("30%".into()),
                weight: Some(1),
                ..change()
            },
            "give one of them",
        ),
        (
            Change {
                weight: Some(0),
                ..change()
            },
            "weight 0 is not between 1 and 10000",
        ),
        (
            Change {
                cgroups: Some(vec!["x".into()]),
                ..change()
            },
            "cgroup \"x\" does not begin with '/'",
        ),
        (
            Change {
                device: Some("x".into()),
                ..change()
            },
            "device \"x\" is neither",
        ),
    ] {
        let mut spec = spec();
        let refused = apply(&change, &mut spec, &[device(7, 0)], None).unwrap_err();
        assert_eq!(refused.kind, Kind::Usage);
        assert!(refused.text.contains(told), "{refused}");
        assert_eq!(spec, super::change::spec());
    }
}

#[test]
fn a_change_by_index_is_one_of_the_entry_that_rules() {
    let mut spec = spec();
    let own = Selector::Uuid(Uuid([7; 16]));
    spec.devices.insert(own, spec.every.unwrap());
    let by_index = Change {
        device: Some("0".into()),
        memory: Some("3GiB".into()),
        ..change()
    };
    let devices = [device(7, 0), device(8, 1)];
    apply(&by_index, &mut spec, &devices, None).unwrap();
    assert_eq!(spec.devices.len(), 1);
    assert_eq!(spec.devices[&own].memory_bytes, Some(3 * GIB));
    let other = Change {
        device: Some("1".into()),
        ..by_index.clone()
    };
    apply(&other, &mut spec, &devices, None).unwrap();
    assert_eq!(spec.quota(&devices[1]).unwrap().memory_bytes, Some(3 * GIB));
    let missing = Change {
        device: Some("2".into()),
        ..by_index
    };
    let refused = apply(&missing, &mut spec, &devices, None).unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound);
}

#[test]
fn a_new_container_says_its_memory() {
    let mut spec = Spec {
        every: None,
        ..spec()
    };
    let create = Change {
        create: true,
        compute: Some("30%".into()),
        ..change()
    };
    let refused = apply(&create, &mut spec, &[], None).unwrap_err();
    assert!(refused.text.contains("--memory none"), "{refused}");
    let create = Change {
        memory: Some("none".into()),
        ..create
    };
    apply(&create, &mut spec, &[], Some(5)).unwrap();
    let every = spec.every.unwrap();
    assert_eq!((every.memory_bytes, every.context_bytes), (None, Some(5)));
}
