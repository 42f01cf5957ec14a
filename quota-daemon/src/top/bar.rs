//! Memory as a bar of characters.

use ratatui::text::Span;

use super::look::{Look, Part};

/// A bar of `width` characters for `all` bytes: its parts one after the other, as long as they are large. What is
/// something at all gets a character, as long as there is room. What lies beyond `all` is not shown.
pub(super) fn bar(look: Look, width: u16, all: u64, parts: &[(Part, u64)]) -> Vec<Span<'static>> {
    let width = u64::from(width);
    let all = all.max(1);
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0_u64, 0_u64);
    for (part, bytes) in parts {
        sum = sum.saturating_add(*bytes);
        let exact = u128::from(sum.min(all)) * u128::from(width);
        let end = u64::try_from((exact + u128::from(all / 2)) / u128::from(all)).unwrap_or(width);
        let least = if *bytes > 0 { drawn + 1 } else { drawn };
        let end = end.max(least).min(width);
        push(look, &mut spans, *part, end - drawn);
        drawn = end;
    }
    push(look, &mut spans, Part::Free, width - drawn);
    spans
}

fn push(look: Look, spans: &mut Vec<Span<'static>>, part: Part, length: u64) {
    if length > 0 {
        let text = (0..length).map(|_| look.glyph(part)).collect::<String>();
        spans.push(Span::styled(text, look.part(part)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOOK: Look = Look {
        colour: false,
        unicode: false,
    };

    fn text(width: u16, all: u64, parts: &[(Part, u64)]) -> String {
        bar(LOOK, width, all, parts)
            .iter()
            .map(|span| span.content.as_ref())
            .collect()
    }

    #[test]
    fn parts_are_as_long_as_they_are_large() {
        let parts = [(Part::Held, 30), (Part::Overhead, 20), (Part::Promised, 10)];
        assert_eq!(text(10, 100, &parts), "###++.    ");
        assert_eq!(text(10, 60, &parts), "#####+++..");
        assert_eq!(text(4, 100, &[]), "    ");
    }

    #[test]
    fn a_little_is_not_nothing_and_too_much_is_full() {
        assert_eq!(text(10, 1000, &[(Part::Held, 1)]), "#         ");
        assert_eq!(text(4, 100, &[(Part::Held, 250)]), "####");
        assert_eq!(text(4, 0, &[(Part::Held, 250)]), "####");
    }

    proptest! {
        #[test]
        fn a_bar_is_as_wide_as_asked(width in 0_u16..300, all: u64, held: u64, more: u64) {
            let parts = [(Part::Held, held), (Part::Foreign, more)];
            prop_assert_eq!(text(width, all, &parts).len(), usize::from(width));
        }
    }
}
