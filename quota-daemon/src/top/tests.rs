//! The screen, seen as a person sees it, and a daemon that answers, is slow, or is not there.

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::{draw, full_height, text};
use super::keys::Deed;
use super::model::{Model, Page, Sample, Sort};
use super::samples::{GIB, container, detail, model, share, status};

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
    let no_one = "no daemon at /run/gpu-quota/control.sock; start it with `quota-daemon serve`, or name its directory \
                  with --state";
    let mut silent = Model::new(model().look, "socket".into(), Duration::from_secs(1));
    silent.hear(Err(no_one.into()));
    golden("no-daemon-80x24", &screen(&silent, 80, 24));

    let mut was_there = model();
    was_there.now = Duration::from_secs(15);
    was_there.hear(Err(no_one.into()));
    let seen = screen(&was_there, 80, 24);
    assert!(seen.contains("12 s old, for no daemon at"), "{seen}");
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
