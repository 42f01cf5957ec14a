//! Whatever is written: a configuration that is taken means what it says, and one that is refused names a place in it.

use proptest::prelude::*;

use super::*;

fn size() -> impl Strategy<Value = (String, Option<u64>)> {
    prop_oneof![
        Just(("\"none\"".to_owned(), None)),
        (1_u64..1 << 20).prop_map(|mib| (format!("\"{mib}MiB\""), Some(mib << 20))),
        (1_u64..1 << 30).prop_map(|units| ((units * 512).to_string(), Some(units * 512))),
    ]
}

fn time() -> impl Strategy<Value = (String, Compute)> {
    let percent = 1_u32..=100;
    prop_oneof![
        Just((String::new(), Compute::Free)),
        percent.clone().prop_map(|n| (
            format!("compute = \"{n}%\"\n"),
            Compute::Limit { ppm: n * 10_000 }
        )),
        (1_u32..=10_000, proptest::option::of(percent)).prop_map(|(weight, cap)| {
            let cap_line = cap.map_or_else(String::new, |cap| format!("cap = {cap}\n"));
            let cap_ppm = cap.map(|cap| cap * 10_000);
            let share = Compute::Share { weight, cap_ppm };
            (format!("weight = {weight}\n{cap_line}"), share)
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_meant(
        (memory_text, memory_bytes) in size(),
        (time_text, compute) in time(),
        priority: i32,
        observe: bool,
        (device_text, device_bytes) in size(),
    ) {
        let text = format!(
            "[[container]]\nname = \"x\"\nmemory = {memory_text}\n{time_text}priority = {priority}\nobserve = {observe}\n\
             [container.device.\"3\"]\nmemory = {device_text}\n"
        );
        let config = read(&[&text]).unwrap();
        let quota = Quota { memory_bytes, compute, priority, observe, context_bytes: None };
        prop_assert_eq!(config.containers[0].every, Some(quota));
        let device = Quota { memory_bytes: device_bytes, ..quota };
        prop_assert_eq!(config.containers[0].devices[&Selector::Index(3)], device);
    }

    #[test]
    fn a_place_is_in_the_file(lines in proptest::collection::vec(line(), 0..12)) {
        let text = lines.join("\n");
        let Err(problems) = read(&[&text]) else { return Ok(()) };
        for problem in problems.list() {
            let (line, column) = problem.at.unwrap();
            let found = text.split('\n').nth(line - 1);
            prop_assert!(found.is_some(), "{problem} of {text:?}");
            prop_assert!(column <= found.unwrap().chars().count() + 1, "{problem} of {text:?}");
            prop_assert!(!problem.text.contains('\n'), "{problem}");
        }
    }
}

/// A line that is sometimes right.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[[container]]".to_owned()),
        Just("[default]".to_owned()),
        Just("[daemon]".to_owned()),
        Just("[container.device.\"0\"]".to_owned()),
        Just("name = \"ä\"".to_owned()),
        Just("memory = \"1g\"".to_owned()),
        (
            "(memory|compute|weight|cap|name|cgroups|device|group|log|state)",
            "\\PC{0,12}"
        )
            .prop_map(|(key, value)| format!("{key} = {value}")),
        (
            "[a-z_]{1,9}",
            "(true|1|-1|\"x\"|\\[\\]|\\{\\}|[0-9]{1,3}.5)"
        )
            .prop_map(|(key, value)| format!("{key} = {value}")),
        "\\PC{0,20}",
    ]
}
