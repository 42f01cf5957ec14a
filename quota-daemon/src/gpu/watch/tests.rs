use std::sync::mpsc;

use super::*;
use crate::gpu::{DeviceReading, GpuProcess};
use crate::model::{Device, Uuid};

const SOON: Duration = Duration::from_secs(30);

fn pace() -> Pace {
    Pace {
        often: Duration::from_millis(5),
        seldom: Duration::from_millis(10),
        least: Duration::from_millis(1),
        attention: Duration::from_millis(200),
        patience: Duration::from_millis(50),
    }
}

fn reading(pid: u32) -> Reading {
    Reading {
        devices: vec![DeviceReading {
            device: Device {
                uuid: Uuid([1; 16]),
                index: 0,
                name: "GPU".into(),
                memory_bytes: 1 << 30,
                mig: false,
            },
            used_bytes: Some(1 << 20),
            utilization_percent: None,
            processes: Some(vec![GpuProcess { pid, bytes: None }]),
            trouble: None,
        }],
        ..Reading::none(None)
    }
}

/// Waits for something to become true.
fn until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < end, "it did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn readings_are_numbered_and_announced() {
    let (ring, rung) = mpsc::channel();
    let watcher = Watcher::start(
        |_: Detail| reading(7),
        pace(),
        move || {
            let _ = ring.send(());
        },
    )
    .unwrap();
    let first = watcher.first(SOON);
    assert_eq!(first.devices, reading(7).devices);
    for _ in 0..3 {
        rung.recv_timeout(SOON).unwrap();
    }
    assert!(watcher.latest().number >= 3);
}

#[test]
fn one_that_hangs_says_since_when_and_comes_back() {
    let (go, wait) = mpsc::channel::<()>();
    let mut calls = 0;
    let source = move |_: Detail| {
        calls += 1;
        if calls == 2 {
            let _ = wait.recv();
        }
        reading(7)
    };
    let watcher = Watcher::start(source, pace(), || {}).unwrap();
    let _ = watcher.first(SOON);
    until(|| watcher.latest().trouble.is_some());
    let latest = watcher.latest();
    let trouble = latest.trouble.clone().unwrap();
    assert!(trouble.contains("has not answered since"), "{trouble}");
    assert_eq!(latest.devices[0].device, reading(7).devices[0].device);
    assert_eq!(latest.devices[0].processes, None);
    assert_eq!(watcher.latest().trouble, Some(trouble), "the text stays");
    go.send(()).unwrap();
    until(|| watcher.latest().trouble.is_none());
    assert_eq!(watcher.latest().devices, reading(7).devices);
}

#[test]
fn the_start_does_not_wait_for_one_that_hangs_at_once() {
    let (_go, wait) = mpsc::channel::<()>();
    let source = move |_: Detail| {
        let _ = wait.recv();
        reading(7)
    };
    let watcher = Watcher::start(source, pace(), || {}).unwrap();
    let first = watcher.first(Duration::from_millis(100));
    assert_eq!(first.number, 0);
    assert!(
        first.trouble.as_ref().unwrap().contains("since"),
        "{first:?}"
    );
}

#[test]
fn a_panic_is_a_trouble() {
    let mut calls = 0;
    let source = move |_: Detail| {
        calls += 1;
        assert_ne!(calls, 2);
        reading(7)
    };
    let watcher = Watcher::start(source, pace(), || {}).unwrap();
    until(|| watcher.latest().number == 2);
    assert!(watcher.latest().trouble.is_some());
    until(|| watcher.latest().trouble.is_none());
}

#[test]
fn who_asks_is_shown_everything_for_a_while_and_soon() {
    let (tell, told) = mpsc::channel();
    let source = move |detail: Detail| {
        let _ = tell.send(detail);
        reading(7)
    };
    let slow = Pace {
        often: SOON * 10,
        ..pace()
    };
    let watcher = Watcher::start(source, slow, || {}).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Detail::Full), "the first one");
    watcher.poke();
    assert_eq!(told.recv_timeout(SOON), Ok(Detail::Full));
    drop(watcher);
    assert!(told.recv_timeout(SOON).is_err(), "the thread ends");

    let (tell, told) = mpsc::channel();
    let source = move |detail: Detail| {
        let _ = tell.send(detail);
        reading(7)
    };
    let watcher = Watcher::start(source, pace(), || {}).unwrap();
    watcher.poke();
    let end = Instant::now() + SOON;
    while told.recv_timeout(SOON) != Ok(Detail::Glance) {
        assert!(Instant::now() < end, "it never looks less closely");
    }
}
