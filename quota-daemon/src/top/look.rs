//! What the terminal can show: colours, characters beyond ASCII.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Colours may be used.
    pub(super) colour: bool,
    /// Characters beyond ASCII may be used.
    pub(super) unicode: bool,
}

/// The parts of a bar. Each has a character of its own: without colours they must be told apart too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Held by containers, by their ledgers.
    Held,
    /// Held beyond that: contexts, modules, rounding.
    Overhead,
    /// Held by processes that no container has registered, and by the dead.
    Foreign,
    /// Promised and not used.
    Promised,
    /// Nobody's.
    Free,
}

impl Look {
    /// As the environment says: `NO_COLOR`, and the character set of `LC_ALL`, `LC_CTYPE` or `LANG`.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        Self {
            colour: set("NO_COLOR").is_none() && !dumb,
            unicode: locale.is_some_and(|locale| {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            }),
        }
    }

    /// The character of a part of a bar.
    pub(super) fn glyph(self, part: Part) -> char {
        match (part, self.unicode) {
            (Part::Held, true) => '█',
            (Part::Held, false) => '#',
            (Part::Overhead, true) => '▓',
            (Part::Overhead, false) => '+',
            (Part::Foreign, true) => '▒',
            (Part::Foreign, false) => '!',
            (Part::Promised, true) => '·',
            (Part::Promised, false) => '.',
            (Part::Free, _) => ' ',
        }
    }

    /// The colour of a part of a bar.
    pub(super) fn part(self, part: Part) -> Style {
        match part {
            Part::Held => self.ink(Color::Green),
            Part::Overhead => self.ink(Color::Yellow),
            Part::Foreign => self.ink(Color::Red),
            Part::Promised => self.faint(),
            Part::Free => Style::new(),
        }
    }

    /// Text of this colour.
    pub(super) fn ink(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What is good to know and should not be in the way.
    pub(super) fn faint(self) -> Style {
        self.ink(Color::DarkGray)
    }

    /// What a person should look at.
    pub(super) fn alarm(self) -> Style {
        self.ink(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What a person should know.
    pub(super) fn warning(self) -> Style {
        self.ink(Color::Yellow)
    }

    /// The end of a text that was cut.
    pub(super) fn more(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// In front of a container that has work on the device.
    pub(super) fn active(self) -> char {
        if self.unicode { '●' } else { '*' }
    }

    /// The selected line, and the direction of the order.
    pub(super) fn pointer(self) -> char {
        if self.unicode { '▶' } else { '>' }
    }

    /// Behind the head of the column that orders the list.
    pub(super) fn order(self, reversed: bool) -> char {
        match (self.unicode, reversed) {
            (true, false) => '▾',
            (true, true) => '▴',
            (false, false) => 'v',
            (false, true) => '^',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(set: &[(&str, &str)]) -> Look {
        Look::of_environment(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_what_may_be_shown() {
        let all = look(&[("LANG", "en_GB.UTF-8")]);
        assert!(all.colour && all.unicode);
        assert!(look(&[("NO_COLOR", "")]).colour);
        assert!(!look(&[("NO_COLOR", "1")]).colour);
        assert!(!look(&[("TERM", "dumb")]).colour);
        assert!(!look(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]).unicode);
        assert!(look(&[("LC_ALL", ""), ("LANG", "C.utf8")]).unicode);
        assert!(!look(&[]).unicode);
    }
}
