//! The terminal: drawing, keys, signals. Everything that happens comes through one channel.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};

use super::draw::{draw, most_scroll};
use super::keys::Deed;
use super::model::{Model, Page};
use super::source::{self, Heard};
use super::terminate;

/// What happens.
enum Happening {
    Key(KeyEvent),
    Resized,
    Heard(Heard),
    /// A signal asks for the end.
    Signal(i32),
    /// The terminal is gone, or a thread of ours.
    Lost,
}

/// Tells that a thread has ended, however it did.
struct Ends(Sender<Happening>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(Happening::Lost);
    }
}

/// Shows the screen until the person has seen enough; gives the signal that ended it, if one did.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn show(mut model: Model, socket: &Path) -> anyhow::Result<Option<i32>> {
    let (tell, happenings) = channel();
    let (want, wanted) = channel();
    let begin = Instant::now();

    // Signals first: threads inherit what is blocked.
    let signals = Ends(tell.clone());
    terminate::catch(move |signal| signals.0.send(Happening::Signal(signal)).is_ok())?;
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let asks = Ends(tell.clone());
    let (path, interval) = (socket.to_owned(), model.interval);
    std::thread::spawn(move || {
        source::ask_on(&path, interval, begin, &wanted, |heard| {
            asks.0.send(Happening::Heard(heard)).is_ok()
        });
    });
    std::thread::spawn(move || listen(&Ends(tell)));

    let ended = turn(&mut model, &mut terminal, &happenings, &want, begin);
    ratatui::restore();
    ended
}

/// Passes on what the terminal tells.
fn listen(tell: &Ends) {
    while let Ok(event) = event::read() {
        let happening = match event {
            Event::Key(key) => Happening::Key(key),
            Event::Resize(..) | Event::FocusGained => Happening::Resized,
            _ => continue,
        };
        if tell.0.send(happening).is_err() {
            return;
        }
    }
}

fn turn(
    model: &mut Model,
    terminal: &mut DefaultTerminal,
    happenings: &Receiver<Happening>,
    want: &Sender<Option<String>>,
    begin: Instant,
) -> anyhow::Result<Option<i32>> {
    loop {
        model.now = begin.elapsed();
        let done = terminal
            .draw(|frame| draw(model, frame.area(), frame.buffer_mut()))
            .context("cannot draw on this terminal")?;
        // Who has scrolled beyond the end comes back with the first key.
        let most = most_scroll(model, done.area.width, done.area.height);
        model.scroll = model.scroll.min(most);
        match happenings.recv().unwrap_or(Happening::Lost) {
            Happening::Resized => {}
            Happening::Heard(Heard::Status(answer)) => model.hear(answer),
            Happening::Heard(Heard::Detail(detail)) => model.detail = Some(detail),
            Happening::Key(key) => match model.press(key) {
                None | Some(Deed::Draw) => {}
                Some(Deed::Quit) => return Ok(None),
                Some(Deed::Ask) => {
                    let looked_at = model.selected.clone();
                    let page = model.page == Page::Container;
                    let _ = want.send(looked_at.filter(|_| page));
                }
                Some(Deed::Suspend) => {
                    ratatui::restore();
                    terminate::suspend()?;
                    *terminal = ratatui::try_init().context("cannot use this terminal")?;
                }
            },
            Happening::Signal(signal) => return Ok(Some(signal)),
            Happening::Lost => anyhow::bail!("the terminal is gone"),
        }
    }
}
