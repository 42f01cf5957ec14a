//! What a daemon could say.

use std::time::Duration;

use super::look::Look;
use super::model::{Detail, Model, Sample};
use crate::model::{Compute, Device, Origin, Uuid};
use crate::report::{
    Container, Daemon, DeviceStatus, Held, Process, Refusal, Share, Status, Unregistered, VERSION,
    Wait, Why,
};

pub(super) const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;

pub(super) fn uuid(byte: u8) -> Uuid {
    Uuid([byte; 16])
}

pub(super) fn device(index: u8) -> DeviceStatus {
    DeviceStatus {
        device: Device {
            uuid: uuid(index),
            index: index.into(),
            name: "NVIDIA H100 80GB HBM3".into(),
            memory_bytes: 80 * GIB,
            mig: false,
        },
        promised_bytes: 60 * GIB,
        used_bytes: Some(35 * GIB),
        utilization_percent: Some(87),
        trouble: None,
        active: 2,
        unregistered: Vec::new(),
    }
}

pub(super) fn share(device: u8, used: u64, limit: Option<u64>) -> Share {
    Share {
        uuid: uuid(device),
        memory_limit_bytes: limit,
        memory_used_bytes: used,
        memory_overhead_bytes: 400 * MIB,
        memory_dead_bytes: 0,
        memory_peak_bytes: used + GIB,
        refusals: 0,
        compute: Compute::Limit { ppm: 300_000 },
        observe: false,
        priority: 0,
        own_percent: Some(30.0),
        now_percent: Some(30.0),
        got_percent: Some(29.6),
        active: true,
        gpu_time_ns: 123_000_000_000,
        waited_ns: 0,
        waits: 0,
        launches: 1_000,
        forced: 0,
        measured_ns: 0,
        estimated_ns: 0,
    }
}

pub(super) fn container(name: &str, devices: Vec<Share>) -> Container {
    Container {
        name: name.into(),
        origin: Origin::Config,
        socket: format!("/run/gpu-quota/containers/{name}/attach.sock"),
        device: None,
        processes: 2,
        damage: None,
        devices,
    }
}

/// Two GPUs; four containers, of which one waits, one is refused memory, and one has no limit and makes trouble.
pub(super) fn status() -> Status {
    let mut first = device(0);
    first.unregistered.push(Unregistered {
        pid: 4711,
        program: Some("python3".into()),
        bytes: Some(1100 * MIB),
        container: Some("team-b".into()),
        killed: false,
    });
    let mut second = device(1);
    second.utilization_percent = None;
    second.trouble = Some("NVML gives no list of processes (Not Supported)".into());
    let weight = Compute::Share {
        weight: 5,
        cap_ppm: Some(600_000),
    };
    let lent = Share {
        compute: weight,
        own_percent: Some(25.0),
        now_percent: Some(40.0),
        got_percent: Some(39.2),
        ..share(0, 10 * GIB, Some(20 * GIB))
    };
    let team_b = Share {
        refusals: 17,
        ..share(0, 93 * GIB / 10, Some(10 * GIB))
    };
    let mut batch = container("batch.alice", vec![share(1, 300 * MIB, None)]);
    batch.damage = Some("slot 17 was never given to anybody".into());
    if let Some(share) = batch.devices.first_mut() {
        share.observe = true;
        share.compute = Compute::Free;
        (share.own_percent, share.now_percent) = (None, None);
    }
    let mut notebook = container("notebook", Vec::new());
    notebook.processes = 0;
    Status {
        version: VERSION,
        daemon: Daemon {
            pid: 42,
            version: "0.1.0".into(),
            started_at: 1_000_000,
            state: "/run/gpu-quota".into(),
            warnings: Vec::new(),
        },
        devices: vec![first, second],
        containers: vec![
            batch,
            notebook,
            container(
                "team-a",
                vec![
                    lent.clone(),
                    Share {
                        uuid: uuid(1),
                        ..lent
                    },
                ],
            ),
            container("team-b", vec![team_b]),
        ],
    }
}

pub(super) fn model() -> Model {
    let look = Look {
        colour: false,
        unicode: true,
    };
    let mut model = Model::new(
        look,
        "/run/gpu-quota/control.sock".into(),
        Duration::from_secs(1),
    );
    let sample = |at, status| Sample {
        at: Duration::from_secs(at),
        unix: 1_000_000 + 3 * 86_400 + at,
        status,
    };
    model.hear(Ok(sample(1, status())));
    let mut later = status();
    for container in &mut later.containers {
        for share in &mut container.devices {
            share.launches += 12_345;
        }
    }
    if let Some(share) = later.containers[3].devices.first_mut() {
        share.waits += 24;
        share.waited_ns += 400_000_000;
        share.refusals += 1;
    }
    model.hear(Ok(sample(3, later)));
    model.now = Duration::from_secs(3);
    model
}

pub(super) fn detail() -> Detail {
    let process = Process {
        container: "team-b".into(),
        pid: 5001,
        pid_inside: 7,
        uid: 1000,
        program: "python3".into(),
        since: 1_000_000 + 3 * 86_400 - 600,
        memory: vec![Held {
            uuid: uuid(0),
            ledger_bytes: 93 * GIB / 10,
            nvml_bytes: Some(97 * GIB / 10),
        }],
    };
    let refusal = Refusal {
        ago_ns: 2_500_000_000,
        pid_inside: 7,
        uuid: Some(uuid(0)),
        asked_bytes: GIB,
        own_bytes: 93 * GIB / 10,
        held_bytes: 93 * GIB / 10,
        room_bytes: 96 * GIB / 10,
    };
    let wait = Wait {
        ago_ns: 120_000_000,
        pid_inside: 7,
        uuid: Some(uuid(0)),
        asked_ns: 2_100_000,
        level_ns: -1_200_000,
        rate_percent: 30.0,
        waited_ns: 11_000_000,
    };
    Detail {
        container: "team-b".into(),
        answer: Ok((
            vec![process],
            Why {
                version: VERSION,
                container: "team-b".into(),
                refusals: vec![refusal],
                waits: vec![wait],
            },
        )),
    }
}
