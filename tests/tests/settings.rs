//! Every spelling of a setting, and every refusal of one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{GIB, MIB, Sim};

const KIB: u64 = 1 << 10;
/// What a device of the simulation has without a quota.
const WHOLE: u64 = 24 * GIB;

/// `cuDeviceTotalMem` under a set of variables.
#[track_caller]
fn total_under(sim: &Sim, variables: &[(&str, &str)]) -> u64 {
    let mut client = sim.client("init");
    for (variable, value) in variables {
        client = client.env(variable, value);
    }
    let finished = client.run().ok();
    assert_eq!(
        finished.number("init"),
        0,
        "{variables:?} was refused: {}",
        finished.stderr
    );
    assert_eq!(
        finished.stderr, "",
        "{variables:?}: a good setting needs no word"
    );
    finished.number("total0")
}

/// Under a bad setting `cuInit` answers `CUDA_ERROR_NOT_PERMITTED` and one line on stderr names the
/// variable, the value, and an example of a good one.
#[track_caller]
fn is_refused(sim: &Sim, variables: &[(&str, &str)], culprit: &str, example: &str) {
    let mut client = sim.client("init");
    for (variable, value) in variables {
        client = client.env(variable, value);
    }
    let finished = client.run().ok();
    assert_eq!(finished.stdout, "init=800\n", "{variables:?}");
    assert_eq!(
        finished.stderr.lines().count(),
        1,
        "{variables:?}: {:?}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains(culprit),
        "{variables:?}: {:?}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains(example),
        "{variables:?}: {:?}",
        finished.stderr
    );
}

#[test]
fn spellings_of_a_size() {
    let sim = Sim::new();
    let spellings: &[(&str, u64)] = &[
        ("1073741824", GIB),
        ("1048576KiB", GIB),
        ("1024MiB", GIB),
        ("1GiB", GIB),
        ("0.001TiB", 1_099_511_628),
        ("1024Mi", GIB),
        ("1Gi", GIB),
        ("1048576Ki", GIB),
        ("1g", GIB),
        ("1024m", GIB),
        ("1048576k", GIB),
        ("1G", GIB),
        ("1024M", GIB),
        ("1GB", 1_000_000_000),
        ("500MB", 500_000_000),
        ("250000KB", 250_000_000),
        ("0.002TB", 2_000_000_000),
        ("1.5GiB", 1536 * MIB),
        ("0.5g", 512 * MIB),
        ("2.25Gi", 2304 * MIB),
        ("300KiB", 300 * KIB),
        ("none", WHOLE),
        // More than there is is no more than there is.
        ("1TiB", WHOLE),
        ("1t", WHOLE),
    ];
    for (spelling, bytes) in spellings {
        let total = total_under(&sim, &[("GPU_QUOTA_MEMORY", spelling)]);
        // What can be used up: whole units.
        assert_eq!(total, bytes / 512 * 512, "{spelling}");
    }
}

#[test]
fn sizes_that_are_refused() {
    let sim = Sim::new();
    for bad in [
        "",
        " ",
        "0",
        "0GiB",
        "-1",
        "-1GiB",
        "+-1",
        "lots",
        "4 GiB GiB",
        "4Q",
        "4GiBs",
        "GiB",
        "1..5GiB",
        "1,5GiB",
        "0x10",
        "NaN",
        "inf",
        "1e400",
        "4GiB;",
        "unlimited",
        "99999999999999999999999",
        "20000000TiB",
        "50%",
    ] {
        is_refused(
            &sim,
            &[("GPU_QUOTA_MEMORY", bad)],
            "GPU_QUOTA_MEMORY",
            "4GiB",
        );
    }
}

#[test]
fn spellings_of_a_share() {
    let sim = Sim::new();
    for good in [
        "30%", "30", "0.3", "100%", "100", "1%", "2", "12.5%", "none",
    ] {
        assert_eq!(total_under(&sim, &[("GPU_QUOTA_COMPUTE", good)]), WHOLE);
    }
}

#[test]
fn shares_that_are_refused() {
    let sim = Sim::new();
    for bad in [
        "",
        "0",
        "0%",
        "-5",
        "-5%",
        "101%",
        "150",
        "1000",
        "half",
        "30%%",
        "%",
        "30 percent",
        "NaN",
        "inf",
        "3,5",
    ] {
        is_refused(
            &sim,
            &[("GPU_QUOTA_COMPUTE", bad)],
            "GPU_QUOTA_COMPUTE",
            "30%",
        );
    }
}

#[test]
fn what_utilisation_is_relative_to() {
    let sim = Sim::new();
    for good in ["quota", "device"] {
        let settings = [
            ("GPU_QUOTA_UTILIZATION", good),
            ("GPU_QUOTA_MEMORY", "2GiB"),
        ];
        assert_eq!(total_under(&sim, &settings), 2 * GIB);
    }
    for bad in ["", "all", "Quota", "1"] {
        let settings = [("GPU_QUOTA_UTILIZATION", bad), ("GPU_QUOTA_MEMORY", "2GiB")];
        is_refused(&sim, &settings, "GPU_QUOTA_UTILIZATION", "quota");
    }
}

#[test]
fn context_sizes() {
    let sim = Sim::new();
    for good in ["0", "300MiB", "1g"] {
        assert_eq!(
            total_under(
                &sim,
                &[("GPU_QUOTA_CONTEXT", good), ("GPU_QUOTA_MEMORY", "2GiB")]
            ),
            2 * GIB
        );
    }
    for bad in ["", "-1", "some"] {
        is_refused(
            &sim,
            &[("GPU_QUOTA_CONTEXT", bad), ("GPU_QUOTA_MEMORY", "2GiB")],
            "GPU_QUOTA_CONTEXT",
            "MiB",
        );
    }
}

#[test]
fn a_quota_for_each_device() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "24GiB,80GiB");
    let bare = sim.client("init").bare().run().ok();
    let uuid = bare.value("uuid1");

    let by_index = sim.client("init").memory("0=4GiB,1=8GiB").run().ok();
    assert_eq!(by_index.number("total0"), 4 * GIB);
    assert_eq!(by_index.number("total1"), 8 * GIB);

    let by_uuid = sim
        .client("init")
        .memory(&format!("0=4GiB,{uuid}=8GiB"))
        .run()
        .ok();
    assert_eq!(by_uuid.number("total0"), 4 * GIB);
    assert_eq!(by_uuid.number("total1"), 8 * GIB);

    // One value alone is for every device, each by itself.
    let same = sim.client("init").memory("5GiB").run().ok();
    assert_eq!(same.number("total0"), 5 * GIB);
    assert_eq!(same.number("total1"), 5 * GIB);

    // No limit is said as well.
    let one = sim.client("init").memory("0=none,1=8GiB").run().ok();
    assert_eq!(one.number("total0"), 24 * GIB);
    assert_eq!(one.number("total1"), 8 * GIB);
}

#[test]
fn quotas_for_devices_that_are_refused() {
    let sim = Sim::new();
    for bad in [
        "0=",
        "=4GiB",
        "0=4GiB,",
        "0=4GiB,0=5GiB",
        "x=4GiB",
        "0=4GiB 1=5GiB",
        "0:4GiB",
        "0=zero",
    ] {
        is_refused(
            &sim,
            &[("GPU_QUOTA_MEMORY", bad)],
            "GPU_QUOTA_MEMORY",
            "4GiB",
        );
    }
}

/// Rows 59 and 66: the names that users of other shims have in their manifests, with the meaning
/// that they have there: 0 is no limit, and `m` is MiB.
#[test]
fn aliases() {
    let sim = Sim::new();
    let spellings: &[(&str, u64)] = &[
        ("1024m", GIB),
        ("1g", GIB),
        ("1073741824", GIB),
        ("0", WHOLE),
        ("0m", WHOLE),
        ("524288k", 512 * MIB),
    ];
    for (spelling, bytes) in spellings {
        assert_eq!(
            total_under(&sim, &[("CUDA_DEVICE_MEMORY_LIMIT", spelling)]),
            *bytes,
            "{spelling}"
        );
    }
    assert_eq!(
        total_under(&sim, &[("CUDA_DEVICE_MEMORY_LIMIT_0", "2g")]),
        2 * GIB
    );
    // The one for a device goes before the one for all.
    let both = [
        ("CUDA_DEVICE_MEMORY_LIMIT", "1g"),
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "2g"),
    ];
    assert_eq!(total_under(&sim, &both), 2 * GIB);
    for share in ["30", "0", "100"] {
        assert_eq!(total_under(&sim, &[("CUDA_DEVICE_SM_LIMIT", share)]), WHOLE);
    }
    assert_eq!(
        total_under(&sim, &[("CUDA_DEVICE_SM_LIMIT_0", "30")]),
        WHOLE
    );
}

/// cGPU's variables: the container's part of each device, in the unit in which the device is counted.
#[test]
fn aliases_of_cgpu() {
    let sim = Sim::new();
    for (variables, bytes) in [
        (
            &[
                ("ALIYUN_COM_GPU_MEM_CONTAINER", "2"),
                ("ALIYUN_COM_GPU_MEM_DEV", "24"),
            ][..],
            2 * GIB,
        ),
        (
            &[
                ("ALIYUN_COM_GPU_MEM_CONTAINER", "512"),
                ("ALIYUN_COM_GPU_MEM_UNIT", "MiB"),
            ],
            512 * MIB,
        ),
        (
            &[
                ("ALIYUN_COM_GPU_MEM_CONTAINER", "2"),
                ("CGPU_DISABLE", "true"),
            ],
            WHOLE,
        ),
    ] {
        assert_eq!(total_under(&sim, variables), bytes, "{variables:?}");
    }
    // Two of what: nobody can tell.
    is_refused(
        &sim,
        &[("ALIYUN_COM_GPU_MEM_CONTAINER", "2")],
        "ALIYUN_COM_GPU_MEM_DEV",
        "16",
    );
}

/// Who comes with another tool's variables is told so once, if they ask; the effect is the same, as [`aliases`] and
/// `gpu_time::the_alias_limits` show.
#[test]
fn names_of_other_tools_are_noted_in_one_line() {
    let sim = Sim::new();
    let told = |variables: &[(&str, &str)]| {
        let mut client = sim.client("init").env("GPU_QUOTA_LOG", "info");
        for (variable, value) in variables {
            client = client.env(variable, value);
        }
        let finished = client.run().ok();
        let lines = finished.stderr.lines();
        let noted = lines
            .filter(|line| line.contains("following"))
            .map(String::from);
        noted.collect::<Vec<_>>()
    };
    let hami = told(&[
        ("CUDA_DEVICE_MEMORY_LIMIT", "1g"),
        ("CUDA_DEVICE_SM_LIMIT", "30"),
    ]);
    assert_eq!(hami.len(), 1, "{hami:?}");
    assert!(
        hami[0].contains("CUDA_DEVICE_MEMORY_LIMIT and CUDA_DEVICE_SM_LIMIT"),
        "{hami:?}"
    );
    let cgpu = told(&[
        ("ALIYUN_COM_GPU_MEM_CONTAINER", "2"),
        ("ALIYUN_COM_GPU_MEM_DEV", "24"),
    ]);
    assert_eq!(cgpu.len(), 1, "{cgpu:?}");
    assert!(
        cgpu[0].contains("ALIYUN_COM_GPU_MEM_CONTAINER;"),
        "{cgpu:?}"
    );
    assert!(told(&[("GPU_QUOTA_MEMORY", "1GiB")]).is_empty());
}

#[test]
fn aliases_by_device() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let client = sim
        .client("init")
        .env("CUDA_DEVICE_MEMORY_LIMIT_0", "1g")
        .env("CUDA_DEVICE_MEMORY_LIMIT_1", "2048m")
        .run()
        .ok();
    assert_eq!(client.number("total0"), GIB);
    assert_eq!(client.number("total1"), 2 * GIB);
}

#[test]
fn our_own_name_goes_before_an_alias() {
    let sim = Sim::new();
    let both = [
        ("GPU_QUOTA_MEMORY", "3GiB"),
        ("CUDA_DEVICE_MEMORY_LIMIT", "1g"),
    ];
    assert_eq!(total_under(&sim, &both), 3 * GIB);
}

/// Row 49: strictly read: what is not understood is not ignored.
#[test]
fn aliases_that_are_refused() {
    let sim = Sim::new();
    for bad in ["", "lots", "-1", "4Q", "1.5.5g"] {
        is_refused(
            &sim,
            &[("CUDA_DEVICE_MEMORY_LIMIT", bad)],
            "CUDA_DEVICE_MEMORY_LIMIT",
            "4096m",
        );
        is_refused(
            &sim,
            &[("CUDA_DEVICE_MEMORY_LIMIT_0", bad)],
            "CUDA_DEVICE_MEMORY_LIMIT_0",
            "4096m",
        );
    }
    for bad in ["", "-1", "101", "some"] {
        is_refused(
            &sim,
            &[("CUDA_DEVICE_SM_LIMIT", bad)],
            "CUDA_DEVICE_SM_LIMIT",
            "30",
        );
        is_refused(
            &sim,
            &[("CUDA_DEVICE_SM_LIMIT_0", bad)],
            "CUDA_DEVICE_SM_LIMIT_0",
            "30",
        );
    }
}

/// A socket that is asked for and is not there: refused, not ignored.
#[test]
fn a_daemon_that_is_required_and_away() {
    let sim = Sim::new();
    let client = sim
        .client("init")
        .env("GPU_QUOTA_SOCKET", "/nonexistent/quota.sock")
        .memory("1GiB")
        .watchdog(30)
        .run()
        .ok();
    assert_eq!(client.stdout, "init=802\n", "CUDA_ERROR_SYSTEM_NOT_READY");
    assert!(
        client.stderr.contains("/nonexistent/quota.sock"),
        "{:?}",
        client.stderr
    );
    assert_eq!(client.stderr.lines().count(), 1, "{:?}", client.stderr);
}

#[test]
fn a_bad_log_level_is_refused() {
    let sim = Sim::new();
    is_refused(
        &sim,
        &[("GPU_QUOTA_LOG", "loud"), ("GPU_QUOTA_MEMORY", "1GiB")],
        "GPU_QUOTA_LOG",
        "error",
    );
}

#[test]
fn with_no_setting_nothing_is_limited_or_said() {
    let sim = Sim::new();
    assert_eq!(total_under(&sim, &[]), WHOLE);
}

/// Row 82: on the standard output there is never a word, whatever the level.
#[test]
fn nothing_on_stdout_at_any_log_level() {
    let sim = Sim::new();
    let silent = sim
        .client("blocks_dlsym")
        .memory("1GiB")
        .env("GPU_QUOTA_LOG", "off")
        .run()
        .ok();
    assert_eq!(silent.stderr, "");
    for level in ["error", "info", "debug"] {
        let client = sim
            .client("blocks_dlsym")
            .memory("1GiB")
            .env("GPU_QUOTA_LOG", level)
            .run()
            .ok();
        assert_eq!(client.stdout, silent.stdout, "{level}");
    }
    let refused = sim
        .client("init")
        .memory("wrong")
        .env("GPU_QUOTA_LOG", "debug")
        .run()
        .ok();
    assert_eq!(refused.stdout, "init=800\n");
}

#[test]
fn the_log_goes_to_a_file_where_asked() {
    let sim = Sim::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("quota.log");
    let client = sim
        .client("blocks_dlsym")
        .memory("1GiB")
        .env("GPU_QUOTA_LOG", "info")
        .env("GPU_QUOTA_LOG_FILE", &file)
        .run()
        .ok();
    assert_eq!(client.stderr, "");
    let log = std::fs::read_to_string(&file).unwrap();
    assert!(!log.trim().is_empty());
}
