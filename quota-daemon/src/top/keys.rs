//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::{Model, Page, Sort};

/// What is to be done beside the model's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Draw again.
    Draw,
    /// Ask the daemon at once: more is to be shown.
    Ask,
    /// End.
    Quit,
    /// Stop as a job of the shell, until it continues us.
    Suspend,
}

impl Model {
    /// A key is pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Deed> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Deed::Quit),
                KeyCode::Char('z') => Some(Deed::Suspend),
                KeyCode::Char('l') => Some(Deed::Draw),
                _ => None,
            };
        }
        match key.code {
            KeyCode::Char('q') => return Some(Deed::Quit),
            KeyCode::Char(' ') => return Some(Deed::Ask),
            _ if self.help => {
                self.help = false;
                return Some(Deed::Draw);
            }
            KeyCode::Char('?') | KeyCode::F(1) => {
                self.help = true;
                return Some(Deed::Draw);
            }
            _ => {}
        }
        match self.page {
            Page::List => self.press_in_list(key.code),
            Page::Container => self.press_in_container(key.code),
        }
    }

    fn press_in_list(&mut self, key: KeyCode) -> Option<Deed> {
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.step(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|at, _| at + 1),
            KeyCode::PageUp => self.step(|at, _| at.saturating_sub(10)),
            KeyCode::PageDown => self.step(|at, _| at + 10),
            KeyCode::Home | KeyCode::Char('g') => self.step(|_, _| 0),
            KeyCode::End | KeyCode::Char('G') => self.step(|_, last| last),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => {
                let name = self.selection()?.name.clone();
                self.selected = Some(name);
                self.detail = None;
                self.scroll = 0;
                self.page = Page::Container;
                return Some(Deed::Ask);
            }
            KeyCode::Char('h') => self.help = true,
            KeyCode::Char('n') => self.order(Sort::Name),
            KeyCode::Char('m') => self.order(Sort::Memory),
            KeyCode::Char('t') => self.order(Sort::Got),
            KeyCode::Char('w') => self.order(Sort::Waits),
            KeyCode::Char('r') => self.order(Sort::Refusals),
            KeyCode::Char('p') => self.order(Sort::Processes),
            _ => return None,
        }
        Some(Deed::Draw)
    }

    fn press_in_container(&mut self, key: KeyCode) -> Option<Deed> {
        match key {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') => {
                self.page = Page::List;
                self.detail = None;
                // So that no more is asked than is shown.
                return Some(Deed::Ask);
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            _ => return None,
        }
        Some(Deed::Draw)
    }

    /// By this column; a second time the other way round.
    fn order(&mut self, sort: Sort) {
        self.reversed = self.sort == sort && !self.reversed;
        self.sort = sort;
    }

    /// Selects another container: its place by the place that is selected and the last one.
    fn step(&mut self, to: impl Fn(usize, usize) -> usize) {
        let names: Vec<_> = self.ordered().iter().map(|c| c.name.clone()).collect();
        let last = names.len().saturating_sub(1);
        let at = names
            .iter()
            .position(|name| Some(name) == self.selected.as_ref())
            .unwrap_or(0);
        self.selected = names.into_iter().nth(to(at, last).min(last));
    }
}
