//! The screen, seen as a person sees it, and a daemon that answers, is slow, or is not there.

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::{draw, full_height, text};
use super::keys::Deed;
use super::look::Look;
use super::model::{Detail, Model, Page, Sample, Sort};
use crate::model::{Compute, Device, Origin, Uuid};
use crate::report::{
    Container, Daemon, DeviceStatus, Held, Process, Refusal, Share, Status, Unregistered, VERSION,
    Wait, Why,
};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn uuid(byte: u8) -> Uuid {
    Uuid([byte; 16])
}

fn device(index: u8) -> DeviceStatus {
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

fn share(device: u8, used: u64, limit: Option<u64>) -> Share {
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
    }
}

fn container(name: &str, devices: Vec<Share>) -> Container {
    Container {
        name: name.into(),
        origin: Origin::Config,
        socket: format!("/run/gpu-quota/containers/{name}/attach.sock"),
        processes: 2,
        damage: None,
        devices,
    }
}

/// Two GPUs; four containers, of which one waits, one is refused memory, and one has no limit and makes trouble.
fn status() -> Status {
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

fn model() -> Model {
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

fn detail() -> Detail {
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

fn press(model: &mut Model, code: KeyCode) -> Option<Deed> {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

/// What stands on a terminal of this size.
fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(model, frame.area(), frame.buffer_mut()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        writeln!(text, "{}", row.trim_end()).unwrap();
    }
    text
}

/// Compares with the screen that was found good. `TOP_BLESS=1` takes the new one; then look at what has changed.
fn golden(name: &str, seen: &str) {
    let path = format!("{}/src/top/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("TOP_BLESS").is_some() {
        std::fs::write(&path, seen).unwrap();
    }
    let good = std::fs::read_to_string(&path).unwrap();
    assert_eq!(good, seen, "\n{name} should be:\n{good}\nand is:\n{seen}");
}

#[test]
fn the_list_in_windows_of_all_sizes() {
    let model = model();
    for (width, height) in [(80, 24), (120, 40), (200, 30), (40, 10), (80, 10)] {
        golden(
            &format!("list-{width}x{height}"),
            &screen(&model, width, height),
        );
    }
}

#[test]
fn the_page_of_a_container_and_the_help() {
    let mut model = model();
    press(&mut model, KeyCode::End);
    assert_eq!(press(&mut model, KeyCode::Enter), Some(Deed::Ask));
    assert_eq!(model.page, Page::Container);
    assert!(screen(&model, 80, 24).contains("asking ..."));
    model.detail = Some(detail());
    golden("container-80x24", &screen(&model, 80, 24));
    golden("container-120x40", &screen(&model, 120, 40));
    press(&mut model, KeyCode::Char('?'));
    golden("help-80x24", &screen(&model, 80, 24));
    press(&mut model, KeyCode::Char('x'));
    assert_eq!(model.page, Page::Container);
    assert_eq!(press(&mut model, KeyCode::Esc), Some(Deed::Ask));
    assert_eq!(model.page, Page::List);
}

#[test]
fn without_a_daemon_it_says_so_and_keeps_what_it_knows() {
    let no_one = "no daemon answers at /run/gpu-quota/control.sock: No such file or directory (os error 2); \
                  `quota-daemon serve` starts one";
    let mut silent = Model::new(model().look, "socket".into(), Duration::from_secs(1));
    silent.hear(Err(no_one.into()));
    golden("no-daemon-80x24", &screen(&silent, 80, 24));

    let mut was_there = model();
    was_there.now = Duration::from_secs(15);
    was_there.hear(Err(no_one.into()));
    let seen = screen(&was_there, 80, 24);
    assert!(seen.contains("12 s old, for no daemon answers"), "{seen}");
    assert!(seen.contains("team-b"), "{seen}");
    was_there.hear(Ok(Sample {
        at: Duration::from_secs(16),
        unix: 0,
        status: status(),
    }));
    assert!(!screen(&was_there, 80, 24).contains("no daemon"));
}

#[test]
fn without_colours_and_beyond_ascii_nothing_is_left() {
    let mut model = model();
    model.look.unicode = false;
    model.detail = Some(detail());
    for page in [Page::List, Page::Container] {
        for help in [false, true] {
            (model.page, model.help) = (page, help);
            let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
            terminal
                .draw(|frame| draw(&model, frame.area(), frame.buffer_mut()))
                .unwrap();
            for cell in terminal.backend().buffer().content() {
                assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
                assert_eq!(cell.fg, ratatui::style::Color::Reset);
                assert_eq!(cell.bg, ratatui::style::Color::Reset);
            }
        }
    }
}

#[test]
fn the_order_follows_keys_and_the_selection_follows_its_container() {
    let mut model = model();
    let names = |model: &Model| -> String {
        let ordered = model.ordered().into_iter();
        ordered
            .map(|c| c.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(&model), "batch.alice notebook team-a team-b");
    press(&mut model, KeyCode::Char('n'));
    assert_eq!(names(&model), "team-b team-a notebook batch.alice");
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selection().unwrap().name, "team-a");
    press(&mut model, KeyCode::Char('m'));
    assert_eq!(names(&model), "team-a team-b batch.alice notebook");
    press(&mut model, KeyCode::Char('w'));
    assert_eq!(names(&model), "team-b batch.alice notebook team-a");
    assert_eq!(model.selection().unwrap().name, "team-a");
    press(&mut model, KeyCode::Char('r'));
    assert_eq!((model.sort, model.reversed), (Sort::Refusals, false));
    assert!(names(&model).starts_with("team-b"));
    press(&mut model, KeyCode::PageDown);
    assert_eq!(model.selection().unwrap().name, "team-a");
    assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Deed::Quit));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.press(ctrl_c), Some(Deed::Quit));
}

#[test]
fn of_many_containers_those_around_the_selected_one_are_seen() {
    let mut model = model();
    let mut many = status();
    many.containers = (0..100)
        .map(|n| container(&format!("job-{n:03}"), vec![share(0, GIB, Some(4 * GIB))]))
        .collect();
    model.last.as_mut().unwrap().status = many;
    for (key, sees, not) in [
        (KeyCode::Home, "job-000", "job-050"),
        (KeyCode::End, "job-099", "job-050"),
        (KeyCode::PageUp, "job-089", "job-000"),
    ] {
        press(&mut model, key);
        let seen = screen(&model, 80, 24);
        assert!(seen.contains(sees) && !seen.contains(not), "{seen}");
    }
    assert_eq!(full_height(&model), 2 + 3 + 3 + 101);
}

#[test]
fn no_window_is_too_small_or_too_large() {
    let mut model = model();
    model.last.as_mut().unwrap().status.daemon.warnings = vec!["a warning".into(); 9];
    model.selected = Some("team-b".into());
    model.detail = Some(detail());
    model.scroll = 7;
    for page in [Page::List, Page::Container] {
        model.page = page;
        for width in (0..50).chain([79, 80, 81, 300]) {
            for height in [0, 1, 2, 3, 5, 8, 13, 24, 100] {
                let _ = text(&model, width, height);
            }
        }
    }
}

#[test]
fn what_tenants_named_does_not_reach_the_terminal_as_it_is() {
    let mut model = model();
    let status = &mut model.last.as_mut().unwrap().status;
    status.devices[0].unregistered[0].program = Some("\x1b[2Jevil\n".into());
    status.containers[0].damage = Some("\x1b]0;title\x07".into());
    let seen = screen(&model, 200, 30);
    assert!(!seen.contains('\x1b') && !seen.contains('\x07'), "{seen}");
    assert!(seen.contains("?[2Jevil?"), "{seen}");
}
