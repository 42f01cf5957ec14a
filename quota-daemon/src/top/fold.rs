//! Lines that are too long for the window.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A line that is too long, broken between words; what follows is indented further than what it follows.
pub(super) fn fold(line: &Line<'static>, width: usize) -> Vec<Line<'static>> {
    if line.width() <= width {
        return vec![line.clone()];
    }
    let letters: Vec<(char, Style)> = line
        .spans
        .iter()
        .flat_map(|span| span.content.chars().map(|c| (c, span.style)))
        .collect();
    let blank = letters.iter().take_while(|(c, _)| *c == ' ').count();
    let indent = (blank + 2).max(11).min(width / 3);
    let mut lines = Vec::new();
    let mut rest = letters.as_slice();
    while !rest.is_empty() {
        let margin = if lines.is_empty() { 0 } else { indent };
        let room = width.saturating_sub(margin).max(1);
        let window = rest.get(..(room + 1).min(rest.len())).unwrap_or(rest);
        let space = window.iter().rposition(|(c, _)| *c == ' ');
        let end = match space {
            _ if rest.len() <= room => rest.len(),
            Some(space) if space > blank => space,
            _ => room,
        };
        let (part, more) = rest.split_at(end.min(rest.len()));
        let letters = part
            .iter()
            .map(|(c, style)| Span::styled(c.to_string(), *style));
        let spans = std::iter::once(Span::raw(" ".repeat(margin))).chain(letters);
        lines.push(Line::from_iter(spans).style(line.style));
        let spaces = more.iter().take_while(|(c, _)| *c == ' ').count();
        rest = more.get(spaces..).unwrap_or_default();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, width: usize) -> Vec<String> {
        let lines = fold(&Line::raw(text.to_owned()), width);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_line_is_broken_between_words() {
        assert_eq!(folded("  a bc", 6), ["  a bc"]);
        assert_eq!(folded("  one two three", 12), ["  one two", "    three"]);
        assert_eq!(folded("abcdefghij", 4), ["abcd", " efg", " hij"]);
        assert_eq!(folded("ab", 0).concat().replace(' ', ""), "ab");
    }
}
