//! Sizes, shares and times as people read them.

/// A size: `512 MiB`, `3.62 GiB`, `0 B`. Two digits after the point at most, and none that say nothing.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |(_, shift): &&(&str, u32)| bytes >> shift > 0;
    match UNITS.iter().find(fits) {
        None => format!("{bytes} B"),
        Some((unit, shift)) => {
            let hundredths = (u128::from(bytes) * 100) >> shift;
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{} {unit}", trimmed(&text))
        }
    }
}

/// A share of a device: `30 %`, `33.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", trimmed(&format!("{share:.1}")))
}

/// A share in parts per million.
#[must_use]
pub fn ppm(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{} %", trimmed(&text))
}

/// A time, in the unit that gives it one to three digits before the point: `17.3 ms`, `2 min 5 s`, `3 d 4 h`.
#[must_use]
pub fn time(ns: u64) -> String {
    const MICRO: u64 = 1_000;
    const MILLI: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;
    let tenths = |unit: u64, name: &str| {
        let tenths = ns / (unit / 10);
        let text = format!("{}.{}", tenths / 10, tenths % 10);
        format!("{} {name}", trimmed(&text))
    };
    match ns {
        0 => "0 s".into(),
        1..MICRO => format!("{ns} ns"),
        MICRO..MILLI => tenths(MICRO, "us"),
        MILLI..SECOND => tenths(MILLI, "ms"),
        _ if ns < 60 * SECOND => tenths(SECOND, "s"),
        _ => long(ns / SECOND),
    }
}

/// A signed time.
#[must_use]
pub fn signed_time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}

/// Two units of a time of a minute or more.
fn long(seconds: u64) -> String {
    let (large, small, large_name, small_name) = match seconds {
        0..3_600 => (seconds / 60, seconds % 60, "min", "s"),
        3_600..86_400 => (seconds / 3_600, seconds / 60 % 60, "h", "min"),
        _ => (seconds / 86_400, seconds / 3_600 % 24, "d", "h"),
    };
    match small {
        0 => format!("{large} {large_name}"),
        _ => format!("{large} {large_name} {small} {small_name}"),
    }
}

/// Without zeros at the end of the fraction.
fn trimmed(text: &str) -> &str {
    text.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1 << 10, "1 KiB"),
            (100 << 20, "100 MiB"),
            (400 << 20, "400 MiB"),
            (1536 << 20, "1.5 GiB"),
            ((4 << 30) - 1, "3.99 GiB"),
            (80 << 30, "80 GiB"),
            (u64::MAX, "16777215.99 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn shares() {
        assert_eq!(percent(30.0), "30 %");
        assert_eq!(percent(33.333), "33.3 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(100.0), "100 %");
        assert_eq!(ppm(300_000), "30 %");
        assert_eq!(ppm(5_000), "0.5 %");
        assert_eq!(ppm(1_000_000), "100 %");
    }

    #[test]
    fn times() {
        for (ns, text) in [
            (0, "0 s"),
            (999, "999 ns"),
            (5_000, "5 us"),
            (12_345_678, "12.3 ms"),
            (40_000_000, "40 ms"),
            (1_500_000_000, "1.5 s"),
            (125_000_000_000, "2 min 5 s"),
            (3_600_000_000_000, "1 h"),
            (86_400_000_000_000 + 7_200_000_000_000, "1 d 2 h"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(signed_time(-12_000_000), "-12 ms");
        assert_eq!(signed_time(i64::MIN), "-106751 d 23 h");
    }
}
