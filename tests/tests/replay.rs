//! Every recorded look-up of a real client, bare and under the shim: same status, same error, and
//! the function of the same exported name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::path::Path;

use quota_tests::{Client, Lookup, Replay, Sim, real_drivers, recorded_lists, write_queries};

/// Replays one list against one driver.
fn replay(client: &dyn Fn() -> Client, lists: &[(String, Vec<Lookup>)]) -> Replay {
    let mut queries = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut queries, write_queries(lists).as_bytes()).unwrap();
    let run = |client: Client| {
        client
            .arg("libcuda.so.1")
            .arg(queries.path())
            .memory("1GiB")
            .compute("50%")
            .run()
            .ok()
    };
    let (bare, shimmed) = (run(client().bare()), run(client()));
    assert_eq!(shimmed.stderr, bare.stderr);
    // The first line says which forms the driver has.
    assert_eq!(shimmed.stdout.lines().next(), bare.stdout.lines().next());
    Replay::compare(&bare.stdout, &shimmed.stdout)
}

/// Replays each list by itself, and all of them, and prints the counts.
fn replay_all(driver: &str, client: &dyn Fn() -> Client) {
    let lists = recorded_lists();
    let mut differing = Vec::new();
    for list in &lists {
        let outcome = replay(client, std::slice::from_ref(list));
        println!(
            "{driver}: {}: {} look-ups, {} answers, {} hooked, {} differ",
            list.0,
            list.1.len(),
            outcome.answers,
            outcome.hooked,
            outcome.differing.len()
        );
        differing.extend(outcome.differing);
    }
    let outcome = replay(client, &lists);
    let recorded: usize = lists.iter().map(|(_, list)| list.len()).sum();
    println!(
        "{driver}: all lists: {recorded} recorded, {} different answers, {} hooked, {} differ",
        outcome.answers,
        outcome.hooked,
        outcome.differing.len()
    );
    assert!(
        outcome.hooked > 50,
        "{driver}: only {} answers are hooked",
        outcome.hooked
    );
    assert!(
        differing.is_empty() && outcome.differing.is_empty(),
        "{driver}: {differing:#?}"
    );
}

/// Row 15 and, for each driver version, row 14: the variant for the requested version.
#[test]
fn look_ups_on_the_simulator() {
    for version in ["13.5", "13.0", "12.4", "12.0", "11.4"] {
        let sim = Sim::new().with("GPU_SIM_DRIVER", version);
        replay_all(&format!("simulator {version}"), &|| sim.client("replay"));
    }
}

#[test]
fn look_ups_on_the_real_driver_library() {
    let sim = Sim::new();
    for (branch, dir) in real_drivers() {
        replay_all(&format!("driver {branch}"), &|| {
            sim.client("replay").driver(&dir)
        });
    }
}

/// The look-ups that matter most are really answered by the shim, each by its own variant.
#[test]
fn functions_with_a_quota_are_hooked() {
    let sim = Sim::new();
    let mut drivers: Vec<(String, Option<std::path::PathBuf>)> = vec![("simulator".into(), None)];
    drivers.extend(
        real_drivers()
            .into_iter()
            .map(|(branch, dir)| (branch.into(), Some(dir))),
    );
    for (driver, dir) in drivers {
        let queries = [
            "proc\tcuMemAlloc\t3020\t0",
            "proc\tcuMemFree\t3020\t0",
            "proc\tcuMemAllocAsync\t11020\t2",
            "proc\tcuMemCreate\t10020\t0",
            "proc\tcuMemGetInfo\t3020\t0",
            "proc\tcuDeviceTotalMem\t3020\t0",
            "proc\tcuLaunchKernel\t4000\t0",
            "proc\tcuLaunchKernel\t7000\t2",
            "proc\tcuLaunchKernelEx\t11060\t2",
            "proc\tcuGraphLaunch\t10000\t0",
            "proc\tcuGetProcAddress\t11030\t0",
            "proc\tcuGetProcAddress\t12000\t0",
            "dlsym\tcuMemAlloc_v2",
            "dlsym\tcuLaunchKernel_ptsz",
            "dlsym\tcuGetProcAddress_v2",
        ];
        let answers = ask(&sim, dir.as_deref(), &queries);
        for (query, answer) in queries.iter().zip(&answers) {
            assert!(
                answer.ends_with("\tother"),
                "{driver}: {query}: not hooked: {answer}"
            );
        }
        let names: Vec<&str> = answers
            .iter()
            .map(|answer| answer.split('\t').rev().nth(1).unwrap())
            .collect();
        assert_eq!(
            names[6..8],
            ["cuLaunchKernel", "cuLaunchKernel_ptsz"],
            "{driver}"
        );
        assert_eq!(names[8], "cuLaunchKernelEx_ptsz", "{driver}");
        assert_eq!(
            names[10..12],
            ["cuGetProcAddress", "cuGetProcAddress_v2"],
            "{driver}"
        );
    }
}

/// The 5-argument form's (for `dlsym`: the only) answer to each query under the shim.
fn ask(sim: &Sim, driver: Option<&Path>, queries: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("queries");
    std::fs::write(&file, queries.join("\n")).unwrap();
    let mut client = sim.client("replay").arg("libcuda.so.1").arg(&file);
    if let Some(dir) = driver {
        client = client.driver(dir);
    }
    let finished = client.run().ok();
    finished
        .stdout
        .lines()
        .skip(1)
        .filter(|line| line.starts_with("v2\t") || line.starts_with("dlsym\t"))
        .map(String::from)
        .collect()
}

/// What clients do not ask for, but may: odd versions, flags and names.
#[test]
fn odd_look_ups_get_the_drivers_answer() {
    let lookups = [
        ("cuMemAlloc", 0, 0),
        ("cuMemAlloc", 1000, 0),
        ("cuMemAlloc", 2000, 0),
        ("cuMemAlloc", 99_999, 0),
        ("cuMemAlloc", 12_000, 1),
        ("cuMemAlloc", 12_000, 3),
        ("cuMemAlloc", 12_000, 4),
        ("cuMemAlloc", 12_000, u64::MAX),
        ("cuLaunchKernel", 3020, 0),
        ("cuLaunchKernel", 6000, 2),
        ("cuLaunchKernel", 12_000, 3),
        ("cuMemAlloc_v2", 12_000, 0),
        ("cuLaunchKernel_ptsz", 12_000, 0),
        ("cuGetProcAddress_v2", 12_000, 0),
        ("cuGetProcAddress", 11_030, 2),
        ("cuGetProcAddress", 12_000, 2),
        ("cuCtxCreate", 2000, 0),
        ("cuCtxCreate", 3020, 0),
        ("cuCtxCreate", 11_040, 0),
        ("cuCtxCreate", 13_000, 0),
        ("cudaMalloc", 12_000, 0),
        ("cudnnCreate", 12_000, 0),
        ("cuMemAllo", 12_000, 0),
        ("cuMemAllocc", 12_000, 0),
        ("cu", 12_000, 0),
        ("", 0, 0),
    ]
    .map(|(name, version, flags)| Lookup::ProcAddress(name.into(), version, flags));
    let by_name = [
        "cuMemAlloc",
        "cuMemAlloc_v3",
        "cuGetProcAddress_v2_ptsz",
        "dlsym",
        "malloc",
        "cudnnCreate",
        "curl_easy_init",
        "cuGetExportTable",
        "",
    ]
    .map(|name| Lookup::Dlsym(name.into()));
    let list = (
        "odd".to_string(),
        lookups.into_iter().chain(by_name).collect::<Vec<_>>(),
    );
    let lists = std::slice::from_ref(&list);

    let sim = Sim::new();
    let outcome = replay(&|| sim.client("replay"), lists);
    assert!(
        outcome.differing.is_empty(),
        "simulator: {:#?}",
        outcome.differing
    );
    for (branch, dir) in real_drivers() {
        let outcome = replay(&|| sim.client("replay").driver(&dir), lists);
        assert!(
            outcome.differing.is_empty(),
            "driver {branch}: {:#?}",
            outcome.differing
        );
    }
}
