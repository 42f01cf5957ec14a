//! Tables for people: as wide as the terminal, in colour where that is wanted, and safe whatever a cell holds.

use std::io::{IsTerminal, stdout};

use ratatui::crossterm::terminal;

/// What a table is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Characters in a line; `None`: no terminal, and lines as long as they are.
    pub width: Option<usize>,
    /// Whether there may be colours.
    pub colour: bool,
}

impl Screen {
    /// This process's stdout.
    #[must_use]
    pub fn stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::PLAIN;
        }
        Self {
            width: terminal::size().ok().map(|(columns, _)| columns.into()),
            colour: colours(),
        }
    }

    /// A file or a pipe.
    pub const PLAIN: Self = Self {
        width: None,
        colour: false,
    };

    /// A text in a tone.
    #[must_use]
    pub fn tone(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.into(),
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Head => "1",
        };
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }
}

/// Whether this process's environment leaves it to us.
#[must_use]
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a cell is to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Good news.
    Good,
    /// Worth a look.
    Warn,
    /// Bad news.
    Bad,
    /// A heading.
    Head,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: clean(text.as_ref()),
            tone: Tone::Plain,
        }
    }
}

impl Cell {
    /// The same in a tone.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A text without what a terminal would obey: names of programs are chosen by tenants.
#[must_use]
pub fn clean(text: &str) -> String {
    let shown = |character: char| {
        if character.is_control() {
            '?'
        } else {
            character
        }
    };
    text.chars().map(shown).collect()
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    right: bool,
    /// Left out before the others where there is no room; 0: never.
    spare: u8,
}

/// A column of words.
#[must_use]
pub const fn words(name: &'static str) -> Column {
    Column {
        name,
        right: false,
        spare: 0,
    }
}

/// A column of numbers.
#[must_use]
pub const fn numbers(name: &'static str) -> Column {
    Column {
        name,
        right: true,
        spare: 0,
    }
}

impl Column {
    /// The higher, the sooner it is left out where there is no room.
    #[must_use]
    pub const fn spare(mut self, spare: u8) -> Self {
        self.spare = spare;
        self
    }
}

/// Rows under headings.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

const GAP: usize = 2;

impl Table {
    /// Without rows.
    #[must_use]
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its lines.
    #[must_use]
    pub fn show(&self, screen: Screen) -> String {
        let mut widths: Vec<Option<usize>> = (0..self.columns.len())
            .map(|column| Some(self.width(column)))
            .collect();
        if let Some(room) = screen.width {
            self.fit(&mut widths, room);
        }
        let head: Vec<_> = self
            .columns
            .iter()
            .map(|column| Cell::from(column.name).tone(Tone::Head))
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            text.push_str(&self.line(row, &widths, screen));
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.text.chars().count()).max();
        let head = self.columns.get(column).map_or(0, |one| one.name.len());
        widest.unwrap_or(0).max(head)
    }

    /// Leaves columns out, and then shortens the widest one of words, until a line has room.
    fn fit(&self, widths: &mut [Option<usize>], room: usize) {
        let total = |widths: &[Option<usize>]| -> usize {
            let shown: Vec<_> = widths.iter().flatten().collect();
            shown.iter().copied().sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        while total(widths) > room {
            let columns = self.columns.iter().zip(widths.iter_mut());
            let out = columns
                .filter(|(column, width)| column.spare > 0 && width.is_some())
                .max_by_key(|(column, _)| column.spare);
            match out {
                Some((_, width)) => *width = None,
                None => break,
            }
        }
        let excess = total(widths).saturating_sub(room);
        let words = self.columns.iter().zip(widths.iter_mut());
        let widest = words
            .filter(|(column, _)| !column.right)
            .filter_map(|(_, width)| width.as_mut())
            .max();
        if let Some(width) = widest {
            *width = width.saturating_sub(excess).max(4);
        }
    }

    fn line(&self, row: &[Cell], widths: &[Option<usize>], screen: Screen) -> String {
        let mut line = String::new();
        let mut gap = 0;
        for ((cell, column), width) in row.iter().zip(&self.columns).zip(widths) {
            let Some(width) = *width else { continue };
            let text = cut(&cell.text, width);
            let pad = width - text.chars().count().min(width);
            let (before, after) = if column.right { (pad, 0) } else { (0, pad) };
            line.push_str(&" ".repeat(gap + before));
            line.push_str(&screen.tone(&text, cell.tone));
            gap = GAP + after;
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            words("NAME"),
            numbers("USED"),
            words("SOCKET").spare(2),
            numbers("MORE").spare(1),
        ]);
        table.row([
            "a-long-name".into(),
            "1 GiB".into(),
            "/run/x".into(),
            Cell::from("7").tone(Tone::Bad),
        ]);
        table.row(["ä".into(), "12 GiB".into(), "".into(), "".into()]);
        table
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let text = table().show(Screen::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        let expected = [
            "NAME           USED  SOCKET  MORE",
            "a-long-name   1 GiB  /run/x     7",
            "ä            12 GiB",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn where_there_is_no_room_the_spare_go_and_then_words_are_cut() {
        for (width, head) in [
            (40, "NAME           USED  SOCKET  MORE"),
            (33, "NAME           USED  SOCKET  MORE"),
            (32, "NAME           USED  MORE"),
            (24, "NAME           USED"),
            (15, "NAME       USED"),
        ] {
            let screen = Screen {
                width: Some(width),
                colour: false,
            };
            let text = table().show(screen);
            assert_eq!(text.lines().next().unwrap(), head, "{width}");
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= width, "{text}");
        }
        let narrow = Screen {
            width: Some(15),
            colour: false,
        };
        assert!(table().show(narrow).contains("a-long~   1 GiB"));
        // What does not fit at all is at least there.
        let none = Screen {
            width: Some(1),
            colour: false,
        };
        assert!(table().show(none).contains("a-l~   1 GiB"));
    }

    #[test]
    fn colour_does_not_move_columns_and_a_cell_cannot_bring_its_own() {
        let screen = Screen {
            width: None,
            colour: true,
        };
        let text = table().show(screen);
        assert!(text.contains("     \x1b[31m7\x1b[0m"), "{text:?}");
        let mut table = Table::new([words("PROGRAM")]);
        table.row(["\x1b[2Jevil\n".into()]);
        assert_eq!(table.show(Screen::PLAIN), "PROGRAM\n?[2Jevil?\n");
    }
}
