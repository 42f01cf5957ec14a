//! Several devices: which quota is whose, whatever order and part of them a program sees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, Finished, GIB, MIB, Sim, artefacts};

/// Variables, the device that they leave out, how the line begins, and the mend in it.
type Case<'a> = (&'a [(&'a str, &'a str)], usize, &'a str, &'a str);

/// A list that leaves out a device which the program sees stops it: the line names the variable, the device by number and
/// UUID, and what to add. What is added so is accepted.
#[test]
fn a_list_that_leaves_out_a_device_is_refused() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let uuids = uuids(&sim);
    let init = || sim.client("init");
    let cases: [Case<'_>; 6] = [
        (
            &[("GPU_QUOTA_MEMORY", "0=4GiB")],
            1,
            "GPU_QUOTA_MEMORY leaves out",
            "add 1=none or 1=4GiB to GPU_QUOTA_MEMORY",
        ),
        (
            &[("GPU_QUOTA_MEMORY", "7=4GiB,1=2GiB")],
            0,
            "GPU_QUOTA_MEMORY leaves out",
            "add 0=none or 0=4GiB",
        ),
        (
            &[("GPU_QUOTA_MEMORY", "4GiB"), ("GPU_QUOTA_COMPUTE", "0=30%")],
            1,
            "GPU_QUOTA_COMPUTE leaves out",
            "add 1=none or 1=30% to GPU_QUOTA_COMPUTE",
        ),
        (
            &[("CUDA_DEVICE_MEMORY_LIMIT_0", "4g")],
            1,
            "CUDA_DEVICE_MEMORY_LIMIT_0 leaves out",
            "set CUDA_DEVICE_MEMORY_LIMIT_1=0 for no limit, or CUDA_DEVICE_MEMORY_LIMIT_1=4096m",
        ),
        (
            &[("CUDA_DEVICE_SM_LIMIT_1", "30")],
            0,
            "CUDA_DEVICE_SM_LIMIT_1 leaves out",
            "set CUDA_DEVICE_SM_LIMIT_0=0 for no limit, or CUDA_DEVICE_SM_LIMIT_0=30",
        ),
        (
            &[("GPU_QUOTA_MEMORY", &format!("{}=4GiB", uuids[1]))],
            0,
            "GPU_QUOTA_MEMORY leaves out",
            "add 0=none or 0=4GiB",
        ),
    ];
    for (variables, device, begin, mend) in cases {
        let refused = with(init(), variables).run().ok();
        assert_eq!(refused.stdout, "init=800\n", "{variables:?}");
        let line = &refused.stderr;
        assert_eq!(line.lines().count(), 1, "{line}");
        let named = format!("{begin} device {device} ({})", uuids[device]);
        assert!(line.contains(&named) && line.contains(mend), "{line}");
    }
    for good in ["0=4GiB,1=none", "0=4GiB,1=4GiB"] {
        let client = init().memory(good).run().ok();
        assert_eq!((client.number("init"), &*client.stderr), (0, ""), "{good}");
    }
    let aliases = [
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "4g"),
        ("CUDA_DEVICE_MEMORY_LIMIT_1", "0"),
    ];
    assert_eq!(with(init(), &aliases).run().ok().number("init"), 0);
}

/// A list that names none of the devices there are is a slip, not a quota.
#[test]
fn a_list_of_other_devices_is_refused() {
    let sim = Sim::new();
    for (variable, value) in [
        ("GPU_QUOTA_MEMORY", "7=1GiB"),
        ("GPU_QUOTA_MEMORY", "999=1GiB"),
        (
            "GPU_QUOTA_MEMORY",
            "GPU-deadbeef-0000-0000-0000-000000000000=1GiB",
        ),
        ("GPU_QUOTA_COMPUTE", "1=30%"),
        ("CUDA_DEVICE_MEMORY_LIMIT_40", "2g"),
        ("CUDA_DEVICE_SM_LIMIT_1", "30"),
    ] {
        let refused = sim.client("init").env(variable, value).run().ok();
        assert_eq!(refused.stdout, "init=800\n", "{variable}={value}");
        let begin = format!("{variable} leaves out device 0 (GPU-");
        assert!(refused.stderr.contains(&begin), "{}", refused.stderr);
    }
}

/// Only what the program sees counts, and what it does not see may be named: one list serves a whole host.
#[test]
fn a_list_may_name_what_is_not_seen() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "3");
    let uuids = uuids(&sim);
    let list = format!("{}=1GiB,{}=2GiB,{}=3GiB", uuids[0], uuids[1], uuids[2]);
    for (visible, total) in [("0", GIB), ("1", 2 * GIB), (&*uuids[2], 3 * GIB)] {
        let client = sim.client("init").memory(&list);
        let client = client.env("CUDA_VISIBLE_DEVICES", visible).run().ok();
        assert_eq!(client.number("total0"), total, "{visible}");
        assert_eq!(client.stderr, "", "{visible}");
    }
    // It is said to whoever wants to know.
    let client = sim.client("init").memory("0=1GiB,1=none,2=none,5=1GiB");
    let client = client.env("GPU_QUOTA_LOG", "info").run().ok();
    assert_eq!(client.number("total0"), GIB);
    let line = "device 5 has a quota, and this program does not see it";
    assert!(client.stderr.contains(line), "{}", client.stderr);
    // One device is seen, and the list covers it: by its number here.
    let client = sim.client("init").memory("0=1GiB");
    let client = client.env("CUDA_VISIBLE_DEVICES", "2").run().ok();
    assert_eq!(client.number("total0"), GIB);
}

/// `doctor` says the same before a program is started.
#[test]
fn doctor_tells_of_a_list_that_leaves_out_a_device() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let doctor = |memory: &str| {
        let client = sim.command(&artefacts().daemon).bare().arg("doctor");
        client.memory(memory).run().stdout
    };
    let said = doctor("0=4GiB");
    let line = "GPU_QUOTA_MEMORY leaves out device 1";
    assert!(said.contains(line) && said.contains("1=none"), "{said}");
    let said = doctor("0=4GiB,1=none,2=1GiB");
    assert!(!said.contains(line), "{said}");
    assert!(said.contains("device 2 has a quota"), "{said}");
}

/// Rows 71 and 73: `CUDA_VISIBLE_DEVICES` in every form. A number in a quota is the number under which CUDA shows the device to
/// the program; a viewer without CUDA, which sees all devices through NVML, shows each its quota all the same.
#[test]
fn every_form_of_cuda_visible_devices() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "24GiB,24GiB,24GiB");
    let uuids = uuids(&sim);
    let short = |device: usize| uuids[device][..12].to_string();
    let forms: Vec<(Option<String>, &[usize])> = vec![
        (None, &[0, 1, 2]),
        (Some("0,1,2".into()), &[0, 1, 2]),
        (Some("2,0".into()), &[2, 0]),
        (Some("1".into()), &[1]),
        (Some(" 2 , 1 ".into()), &[2, 1]),
        (Some(format!("{},{}", uuids[2], uuids[0])), &[2, 0]),
        (Some(format!("{},1", short(2))), &[2, 1]),
        (Some(uuids[1].to_uppercase()), &[1]),
        (Some("0,7,1".into()), &[0]),
        (Some("0,2,-1,1".into()), &[0, 2]),
        (Some("0,GPU-zz,1".into()), &[0]),
        (Some(String::new()), &[]),
        (Some("-1".into()), &[]),
        (Some("NoDevFiles".into()), &[]),
        (Some("1,1".into()), &[]),
    ];
    for (list, seen) in forms {
        let under = |client: Client| match &list {
            Some(list) => client.env("CUDA_VISIBLE_DEVICES", list),
            None => client,
        };
        let quota = "0=1GiB,1=2GiB,2=3GiB";
        let program = under(sim.client("init")).memory(quota).run().ok();
        if seen.is_empty() {
            assert_eq!(program.stdout, "init=100\n", "{list:?}");
        }
        let mut expected = [24 * GIB; 3];
        for (number, device) in seen.iter().enumerate() {
            let shown = (number as u64 + 1) * GIB;
            assert_eq!(program.value(&format!("uuid{number}")), uuids[*device]);
            assert_eq!(program.number(&format!("total{number}")), shown, "{list:?}");
            expected[*device] = shown;
        }
        let viewer = under(sim.client("nvml_tell")).args(["0", "1", "2"]);
        let viewer = viewer.memory(quota).run().ok();
        assert_eq!(totals(&viewer), expected, "{list:?}");
    }
}

/// Rows 70 and 74: usage goes to the card that has it, by plain memory and by physical memory that names a device by its number,
/// whatever the order; each limit holds by itself, and NVML shows it at the right card.
#[test]
fn usage_goes_to_the_right_card() {
    for (visible, order) in [("2,0", [2, 0]), ("1,2", [1, 2])] {
        let sim = Sim::new().with("GPU_SIM_DEVICES", "4GiB,4GiB,4GiB");
        let uuids = uuids(&sim);
        let quota = format!("{}=1GiB,{}=512MiB", uuids[order[0]], uuids[order[1]]);
        let client = sim.client("devices_fill").memory(&quota).free_context();
        let mut client = client.env("CUDA_VISIBLE_DEVICES", visible).spawn();
        client.line("ready");
        let viewer = sim.client("nvml_tell").args(["0", "1", "2"]);
        let viewer = viewer.memory(&quota).free_context().run().ok();
        let account = sim.account();
        let filled = client.finish().ok();
        let mut expected = [4 * GIB; 3];
        for (number, (device, blocks)) in order.into_iter().zip([16, 8]).enumerate() {
            assert_eq!(filled.value(&format!("uuid{number}")), uuids[device]);
            assert_eq!(filled.number(&format!("filled{number}")), blocks);
            assert_eq!(filled.number(&format!("ordinal{number}")), number as u64);
            assert_eq!(filled.number(&format!("result{number}")), 2);
            assert_eq!(account.devices[device].requested, blocks * 64 * MIB);
            expected[device] = blocks * 64 * MIB;
        }
        assert_eq!(totals(&viewer), expected, "{visible}");
        let hidden = 3 - order[0] - order[1];
        assert_eq!(account.devices[hidden].requested, 0, "{visible}");
    }
}

/// Two groups on one card: each is held to its own, and sees its own.
#[test]
fn two_quotas_on_one_card() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "8GiB");
    let groups = [("one", "1GiB", 16), ("two", "2GiB", 32)];
    let member = |name: &str, quota: &str, program: &str| {
        let client = sim.client(program).memory(quota).free_context();
        let group = sim.group(name);
        client
            .env("GPU_SIM_TENANT", &group)
            .env("GPU_QUOTA_GROUP", group)
    };
    let mut running: Vec<_> = groups
        .iter()
        .map(|(name, quota, _)| member(name, quota, "devices_fill").spawn())
        .collect();
    for client in &mut running {
        client.line("ready");
    }
    for ((name, quota, blocks), client) in groups.iter().zip(&running) {
        let viewer = member(name, quota, "nvml_tell").arg("0").run().ok();
        assert_eq!(viewer.number("total"), blocks * 64 * MIB, "{name}");
        assert_eq!(viewer.number("free"), 0, "{name}");
        let own = format!("{}:{}", client.pid(), blocks * 64);
        assert_eq!(viewer.value("Compute"), own, "{name}");
    }
    let account = sim.account();
    for (name, _, blocks) in groups {
        let label = sim.group(name);
        let tenants = &account.devices[0].tenants;
        let tenant = tenants.iter().find(|tenant| tenant.label == label);
        assert_eq!(tenant.unwrap().peak_requested, blocks * 64 * MIB, "{name}");
    }
}

/// Row 68: an instance of a GPU in MIG mode is a device, with a quota by its own UUID; NVML shows it at the instance, names the
/// instance in its lists, and shows its GPU as the sum.
#[test]
fn mig_instances_are_devices() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "8GiB[3GiB,4GiB],8GiB");
    let see = |list: &str| {
        let client = sim.client("init").bare().env("CUDA_VISIBLE_DEVICES", list);
        client.run().ok()
    };
    let whole = see("1").value("uuid0").to_string();
    let first = see("0").value("uuid0").replace("GPU-", "MIG-");
    // The second instance's is known to NVML alone here.
    let list = sim.client("nvml_uuids").bare().run().ok();
    let instances: Vec<&str> = list.value("instances").split(' ').collect();
    assert_eq!(instances[0], first);
    let second = instances[1];

    let quota = format!("{first}=1GiB,{second}=2GiB,{whole}=none");
    for (instance, total, id) in [(&*first, GIB, 1), (second, 2 * GIB, 2)] {
        let client = sim.client("devices_fill").memory(&quota).free_context();
        let mut client = client.env("CUDA_VISIBLE_DEVICES", instance).spawn();
        client.line("ready");
        let viewer = |device: &str| {
            let viewer = sim.client("nvml_tell").arg(device).memory(&quota);
            viewer.free_context().run().ok()
        };
        let seen = viewer(instance);
        assert_eq!((seen.number("total"), seen.number("free")), (total, 0));
        let own = format!("{}:{}@{id}.0", client.pid(), total / MIB);
        assert_eq!(seen.value("Compute"), own);
        // Both limits together; what the one instance holds.
        let gpu = viewer("0");
        assert_eq!(gpu.number("total"), 3 * GIB);
        assert_eq!(gpu.number("used"), total);
        assert_eq!(gpu.value("Compute"), own);
        assert_eq!(viewer("1").number("total"), 8 * GIB);
        let filled = client.finish().ok();
        assert_eq!(filled.number("filled0") * 64 * MIB, total);
    }
    // A quota for the GPU is none for its instance: refused by the instance's name.
    let client = sim
        .client("init")
        .memory("GPU-00000000-0000-0000-0000-000000000001=1GiB");
    let client = client.env("CUDA_VISIBLE_DEVICES", second).run().ok();
    assert_eq!(client.stdout, "init=800\n");
    let line = &client.stderr;
    assert!(line.contains(&format!("device 0 ({second})")), "{line}");
}

/// Row 83: refusals are counted by device, for whoever reads the region, and `doctor` tells them.
#[test]
fn refusals_are_counted_and_told() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let quota = "0=1GiB,1=512MiB";
    let client = sim.client("devices_fill").memory(quota).free_context();
    let mut client = client.spawn();
    client.line("ready");
    let doctor = sim.command(&artefacts().daemon).bare().arg("doctor");
    let said = doctor.memory(quota).run().stdout;
    let uuids = uuids(&sim);
    for (uuid, held) in uuids.iter().zip(["1 GiB", "512 MiB"]) {
        let line = format!("{uuid}: {held} of {held} held, 1 request refused");
        assert!(said.contains(&line), "{line} is not in\n{said}");
    }
}

/// The devices as they are without a quota, in NVML's order.
fn uuids(sim: &Sim) -> Vec<String> {
    let bare = sim.client("init").bare().run().ok();
    (0..bare.number("devices"))
        .map(|number| bare.value(&format!("uuid{number}")).to_string())
        .collect()
}

fn with(client: Client, variables: &[(&str, &str)]) -> Client {
    variables
        .iter()
        .fold(client, |client, (name, value)| client.env(name, value))
}

/// The totals of all devices that a viewer was asked for.
fn totals(viewer: &Finished) -> Vec<u64> {
    let lines = viewer.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("total=")?.parse().ok())
        .collect()
}
