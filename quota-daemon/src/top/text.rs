//! Figures as they fit into a column: always with as many digits, so that nothing jumps when it changes.

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;

const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// The unit in which a size has one to four digits before the point.
fn unit(bytes: u64) -> (&'static str, u64) {
    UNITS
        .into_iter()
        .find(|(_, of)| bytes >= *of)
        .unwrap_or(("B", 1))
}

/// A size in this unit, without its name.
fn amount(bytes: u64, of: u64) -> String {
    let value = to_f64(bytes) / to_f64(of);
    if of == 1 || value >= 99.95 || bytes == 0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// A size: `3.1 GiB`.
pub(super) fn size(bytes: u64) -> String {
    let (name, of) = unit(bytes);
    format!("{} {name}", amount(bytes, of))
}

/// What is used of what there is, in one unit: `3.1/4.0 GiB`.
pub(super) fn used_of(used: u64, all: u64) -> String {
    let (name, of) = unit(used.max(all));
    format!("{}/{} {name}", amount(used, of), amount(all, of))
}

/// A share of a device; `-` is none.
pub(super) fn percent(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value >= 99.95 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// A number, in at most five characters.
pub(super) fn number(value: u64) -> String {
    match value {
        0..=99_999 => value.to_string(),
        100_000..=999_999 => format!("{}k", value / 1_000),
        1_000_000..=999_999_999 => format!("{:.1}M", to_f64(value) / 1e6),
        _ => format!("{:.0}G", to_f64(value) / 1e9),
    }
}

/// How often in a second, in at most five characters; nothing is a dot, so that what is something is seen.
pub(super) fn rate(value: f64) -> String {
    match value {
        v if v < 0.05 => ".".into(),
        v if v < 99.95 => format!("{v:.1}"),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.1}M", v / 1e6),
    }
}

/// At most so many characters of a text, the last of them telling that there are more.
pub(super) fn cut(text: &str, room: usize, more: char) -> String {
    if text.chars().count() <= room {
        return text.into();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    if room > 0 {
        short.push(more);
    }
    short
}

/// What others wrote, without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures on a screen have four digits"
)]
pub(super) fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_suits_it() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(512), "512 B");
        assert_eq!(size(1 << 20), "1.0 MiB");
        assert_eq!(size((1 << 30) - 1), "1024 MiB");
        assert_eq!(size(80 << 30), "80.0 GiB");
        assert_eq!(used_of(3 << 29, 4 << 30), "1.5/4.0 GiB");
        assert_eq!(used_of(0, 512 << 20), "0/512 MiB");
        assert_eq!(used_of(1 << 19, 1 << 40), "0.0/1.0 TiB");
    }

    #[test]
    fn a_number_never_needs_more_than_five_characters() {
        for value in [0, 9, 99_999, 100_000, 999_999, 1_000_000, 999_900_000] {
            assert!(number(value).len() <= 6, "{}", number(value));
            assert!(rate(to_f64(value)).len() <= 6, "{}", rate(to_f64(value)));
        }
        assert_eq!(number(123_456), "123k");
        assert_eq!(rate(0.0), ".");
        assert_eq!(rate(12.34), "12.3");
        assert_eq!(percent(Some(100.0)), "100");
        assert_eq!(percent(None), "-");
    }

    #[test]
    fn what_does_not_fit_is_cut_and_says_so() {
        assert_eq!(cut("team-a", 6, '~'), "team-a");
        assert_eq!(cut("team-ab", 6, '~'), "team-~");
        assert_eq!(cut("x", 0, '~'), "");
        assert_eq!(harmless("a\x1b[2Jb\n"), "a?[2Jb?");
    }
}
