//! How people write sizes, shares and devices. Pure: the shim and the command line read the same spellings.

use core::fmt;

/// Parts per million: 300 000 is 30 %.
pub type Ppm = u32;
/// A whole device.
pub const WHOLE: Ppm = 1_000_000;
/// Larger sizes are typing errors; and sums over a group's processes stay far from overflow.
pub(crate) const LARGEST: u64 = 1 << 60;

/// Digits after the point: with more, a number that is not too large could be one here.
const FINEST: usize = 15;

/// Why a spelling is refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Nothing is written.
    Empty,
    /// Not a number, or something before it.
    Number,
    /// A number followed by something that is no unit.
    Unit,
    /// Zero, or too small to mean more.
    Zero,
    /// A fraction of a byte.
    Fraction,
    /// More digits after the point than anybody means.
    TooFine,
    /// Larger than any device.
    TooLarge,
    /// More than the whole device.
    MoreThanWhole,
    /// Not a device's number or UUID.
    Device,
    /// One device twice.
    Twice,
    /// Neither one value nor a list of `device=value`.
    List,
    /// Not one of the words that are allowed.
    Word,
    /// Not text.
    Text,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty",
            Self::Number => "is not a positive number",
            Self::Unit => "has an unknown unit",
            Self::Zero => "must be more than zero",
            Self::Fraction => "is not a whole number of bytes",
            Self::TooFine => "has too many digits after the point",
            Self::TooLarge => "is too large",
            Self::MoreThanWhole => "is more than 100 %",
            Self::Device => "names a device neither by number nor by UUID",
            Self::Twice => "names a device twice",
            Self::List => "is neither one value nor a list of device=value",
            Self::Word => "is not one of the words allowed here",
            Self::Text => "is not text",
        })
    }
}

impl std::error::Error for Wrong {}

/// A size in bytes; `None` for `none`.
///
/// Bytes; `KiB..TiB`, `Ki..Ti`; `k m g t` as Docker reads them (binary, either case); `KB..TB` decimal; fractions with a unit.
pub fn size(text: &str) -> Result<Option<u64>, Wrong> {
    if text == "none" {
        return Ok(None);
    }
    match size_or_zero(text)? {
        0 => Err(Wrong::Zero),
        bytes => Ok(Some(bytes)),
    }
}

/// A size in bytes that may be zero.
pub fn size_or_zero(text: &str) -> Result<u64, Wrong> {
    let number = Number::split(text)?;
    let unit = match number.unit {
        "" => 1,
        "k" | "K" | "Ki" | "KiB" => 1 << 10,
        "m" | "M" | "Mi" | "MiB" => 1 << 20,
        "g" | "G" | "Gi" | "GiB" => 1 << 30,
        "t" | "T" | "Ti" | "TiB" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(Wrong::Unit),
    };
    if number.unit.is_empty() && number.scale != 1 {
        return Err(Wrong::Fraction);
    }
    let bytes = number.times(unit)?;
    if bytes == 0 && number.digits != 0 {
        return Err(Wrong::Zero);
    }
    if bytes > LARGEST {
        return Err(Wrong::TooLarge);
    }
    Ok(bytes)
}

/// A share of a device; `None` for `none`: `30%`, `30` (from 1 on, percent), `0.3` (below 1, a fraction).
pub fn share(text: &str) -> Result<Option<Ppm>, Wrong> {
    if text == "none" {
        return Ok(None);
    }
    let number = Number::split(text)?;
    let unit = match number.unit {
        "%" => WHOLE / 100,
        "" if number.digits < number.scale => WHOLE,
        "" => WHOLE / 100,
        _ => return Err(Wrong::Unit),
    };
    match number.times(unit.into())? {
        0 => Err(Wrong::Zero),
        ppm => match Ppm::try_from(ppm) {
            Ok(ppm) if ppm <= WHOLE => Ok(Some(ppm)),
            _ => Err(Wrong::MoreThanWhole),
        },
    }
}

/// A size as `CUDA_DEVICE_MEMORY_LIMIT` is written: whole numbers, `k m g` in either case, all binary; 0 means none.
pub fn alias_size(text: &str) -> Result<Option<u64>, Wrong> {
    let number = Number::split(text)?;
    let unit = match number.unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(Wrong::Unit),
    };
    if number.scale != 1 {
        return Err(Wrong::Number);
    }
    match number.times(unit)? {
        0 => Ok(None),
        bytes if bytes > LARGEST => Err(Wrong::TooLarge),
        bytes => Ok(Some(bytes)),
    }
}

/// A share as `CUDA_DEVICE_SM_LIMIT` is written: whole percent; 0 means none.
pub fn alias_share(text: &str) -> Result<Option<Ppm>, Wrong> {
    let number = Number::split(text)?;
    if number.scale != 1 {
        return Err(Wrong::Number);
    }
    if !number.unit.is_empty() {
        return Err(Wrong::Unit);
    }
    match number.digits {
        0 => Ok(None),
        percent @ 1..=100 => share(text).map(|ppm| ppm.filter(|_| percent > 0)),
        _ => Err(Wrong::MoreThanWhole),
    }
}

/// A whole number without a unit, more than zero.
pub fn count(text: &str) -> Result<u64, Wrong> {
    let number = Number::split(text)?;
    if number.scale != 1 {
        return Err(Wrong::Number);
    }
    if !number.unit.is_empty() {
        return Err(Wrong::Unit);
    }
    match number.times(1)? {
        0 => Err(Wrong::Zero),
        count => Ok(count),
    }
}

/// `GPU-` or `MIG-` and a UUID.
pub fn uuid(text: &str) -> Result<[u8; 16], Wrong> {
    let hex = text
        .strip_prefix("GPU-")
        .or_else(|| text.strip_prefix("MIG-"))
        .ok_or(Wrong::Device)?;
    let mut uuid = [0_u8; 16];
    let mut nibble = 0;
    for (at, character) in hex.chars().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if character != '-' {
                return Err(Wrong::Device);
            }
            continue;
        }
        let digit = character.to_digit(16).ok_or(Wrong::Device)?;
        let byte = uuid.get_mut(nibble / 2).ok_or(Wrong::Device)?;
        *byte = *byte << 4 | u8::try_from(digit).unwrap_or(0);
        nibble += 1;
    }
    if nibble == 32 {
        Ok(uuid)
    } else {
        Err(Wrong::Device)
    }
}

/// A UUID as `nvidia-smi -L` writes it.
#[derive(Copy, Clone, Debug)]
pub struct UuidText {
    prefix: &'static str,
    number: u128,
}

impl UuidText {
    /// Of a whole device, or of a MIG instance.
    #[must_use]
    pub const fn new(uuid: &[u8; 16], is_instance: bool) -> Self {
        Self {
            prefix: if is_instance { "MIG" } else { "GPU" },
            number: u128::from_be_bytes(*uuid),
        }
    }
}

impl fmt::Display for UuidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| self.number >> shift & ((1 << bits) - 1);
        write!(
            f,
            "{}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            self.prefix,
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}

/// A decimal number and what follows it.
struct Number<'a> {
    /// All digits, those after the point included.
    digits: u128,
    /// Ten to the number of digits after the point.
    scale: u128,
    unit: &'a str,
}

impl<'a> Number<'a> {
    fn split(text: &'a str) -> Result<Self, Wrong> {
        if text.is_empty() {
            return Err(Wrong::Empty);
        }
        let (whole, rest) = leading_digits(text);
        if whole.is_empty() {
            return Err(Wrong::Number);
        }
        let (fraction, unit) = match rest.strip_prefix('.') {
            Some(rest) => match leading_digits(rest) {
                ("", _) => return Err(Wrong::Number),
                split => split,
            },
            None => ("", rest),
        };
        // Zeros at the end of a fraction are nothing; one stays, since "1.0" is written as a fraction.
        let fraction = match fraction.trim_end_matches('0') {
            "" if !fraction.is_empty() => "0",
            fraction => fraction,
        };
        if fraction.len() > FINEST {
            return Err(Wrong::TooFine);
        }
        let mut digits = 0_u128;
        let mut scale = 1_u128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .checked_mul(10)
                .and_then(|digits| digits.checked_add(u128::from(digit - b'0')))
                .ok_or(Wrong::TooLarge)?;
        }
        for _ in fraction.bytes() {
            scale = scale.checked_mul(10).ok_or(Wrong::Number)?;
        }
        Ok(Self {
            digits,
            scale,
            unit,
        })
    }

    /// The number in units of one, rounded down.
    fn times(&self, unit: u128) -> Result<u64, Wrong> {
        let scaled = self.digits.checked_mul(unit).ok_or(Wrong::TooLarge)?;
        u64::try_from(scaled / self.scale).map_err(|_| Wrong::TooLarge)
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("1KiB", 1 << 10),
            ("1Ki", 1 << 10),
            ("1k", 1 << 10),
            ("1KB", 1000),
            ("1kB", 1000),
            ("256MiB", 256 << 20),
            ("256Mi", 256 << 20),
            ("256m", 256 << 20),
            ("256M", 256 << 20),
            ("5MB", 5_000_000),
            ("4GiB", 4 << 30),
            ("4Gi", 4 << 30),
            ("4g", 4 << 30),
            ("4G", 4 << 30),
            ("4GB", 4_000_000_000),
            ("1.5GiB", 3 << 29),
            ("0.5g", 1 << 29),
            ("2TiB", 2 << 40),
            ("2Ti", 2 << 40),
            ("2t", 2 << 40),
            ("2TB", 2_000_000_000_000),
            ("0.0001KiB", 0),
            ("1.000000000000000000000000000000GiB", 1 << 30),
            ("1.500000000000000000000000000000k", 1536),
        ] {
            let expected = if bytes == 0 {
                Err(Wrong::Zero)
            } else {
                Ok(Some(bytes))
            };
            assert_eq!(size(text), expected, "{text}");
        }
        assert_eq!(size("none"), Ok(None));
        assert_eq!(size_or_zero("0"), Ok(0));
        assert_eq!(size_or_zero("0MiB"), Ok(0));
    }

    #[test]
    fn refused_sizes() {
        for (text, why) in [
            ("", Wrong::Empty),
            ("0", Wrong::Zero),
            ("0GiB", Wrong::Zero),
            ("-1", Wrong::Number),
            ("+1", Wrong::Number),
            (" 1", Wrong::Number),
            ("1 ", Wrong::Unit),
            ("1 GiB", Wrong::Unit),
            ("GiB", Wrong::Number),
            (".5GiB", Wrong::Number),
            ("1.GiB", Wrong::Number),
            ("1.5", Wrong::Fraction),
            ("1.0", Wrong::Fraction),
            ("1.0000000000000001GiB", Wrong::TooFine),
            ("4gb", Wrong::Unit),
            ("4gib", Wrong::Unit),
            ("4e9", Wrong::Unit),
            ("0x10", Wrong::Unit),
            ("1,5GiB", Wrong::Unit),
            ("1PiB", Wrong::Unit),
            ("None", Wrong::Number),
            ("unlimited", Wrong::Number),
            ("99999999TiB", Wrong::TooLarge),
            ("99999999999999999999999999999999999999999", Wrong::TooLarge),
            ("٣GiB", Wrong::Number),
        ] {
            assert_eq!(size(text), Err(why), "{text}");
        }
    }

    #[test]
    fn shares() {
        for (text, ppm) in [
            ("30%", 300_000),
            ("30", 300_000),
            ("0.3", 300_000),
            ("33.3%", 333_000),
            ("12.5", 125_000),
            ("1", 10_000),
            ("0.01", 10_000),
            ("0.5%", 5_000),
            ("100", WHOLE),
            ("100%", WHOLE),
        ] {
            assert_eq!(share(text), Ok(Some(ppm)), "{text}");
        }
        assert_eq!(share("none"), Ok(None));
        for (text, why) in [
            ("", Wrong::Empty),
            ("0", Wrong::Zero),
            ("0%", Wrong::Zero),
            ("0.0000001", Wrong::Zero),
            ("-5", Wrong::Number),
            ("101", Wrong::MoreThanWhole),
            ("100.1%", Wrong::MoreThanWhole),
            ("30 %", Wrong::Unit),
            ("30percent", Wrong::Unit),
            ("half", Wrong::Number),
        ] {
            assert_eq!(share(text), Err(why), "{text}");
        }
    }

    #[test]
    fn aliases() {
        for (text, bytes) in [
            ("0", None),
            ("0m", None),
            ("1024", Some(1024)),
            ("512k", Some(512 << 10)),
            ("3000m", Some(3000 << 20)),
            ("3000M", Some(3000 << 20)),
            ("4g", Some(4 << 30)),
            ("4G", Some(4 << 30)),
        ] {
            assert_eq!(alias_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "none", "-1", "1.5g", "4GiB", "4GB", "g", "1 g"] {
            assert!(alias_size(text).is_err(), "{text}");
        }
        assert_eq!(alias_share("0"), Ok(None));
        assert_eq!(alias_share("1"), Ok(Some(10_000)));
        assert_eq!(alias_share("50"), Ok(Some(500_000)));
        assert_eq!(alias_share("100"), Ok(Some(WHOLE)));
        for text in ["", "101", "50%", "0.5", "-1", "none"] {
            assert!(alias_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn uuids() {
        let uuid = uuid("GPU-00112233-4455-6677-8899-aAbBcCdDeEfF").unwrap();
        assert_eq!(uuid[0], 0x00);
        assert_eq!(uuid[15], 0xff);
        let text = UuidText::new(&uuid, false).to_string();
        assert_eq!(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(
            super::uuid(&UuidText::new(&uuid, true).to_string()),
            Ok(uuid)
        );
        assert!(super::uuid("MIG-00112233-4455-6677-8899-aabbccddeeff").is_ok());
        for text in [
            "",
            "GPU-",
            "00112233-4455-6677-8899-aabbccddeeff",
            "GPU-00112233-4455-6677-8899-aabbccddeef",
            "GPU-00112233-4455-6677-8899-aabbccddeeff0",
            "GPU-0011223344556677-8899-aabb-ccddeeff",
            "GPU-00112233-4455-6677-8899-aabbccddeegg",
        ] {
            assert_eq!(super::uuid(text), Err(Wrong::Device), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC*") {
            let _ = (size(&text), share(&text), alias_size(&text), alias_share(&text), uuid(&text));
        }

        #[test]
        fn whole_sizes_are_exact(number in 1_u64..1 << 20) {
            prop_assert_eq!(size(&format!("{number}")), Ok(Some(number)));
            prop_assert_eq!(size(&format!("{number}MiB")), Ok(Some(number << 20)));
            prop_assert_eq!(size(&format!("{number}.0MiB")), Ok(Some(number << 20)));
            prop_assert_eq!(alias_size(&format!("{number}m")), Ok(Some(number << 20)));
        }

        #[test]
        fn shares_are_never_more_than_asked(percent in 1_u32..=100, tenth in 0_u32..10) {
            let Ok(Some(ppm)) = share(&format!("{percent}.{tenth}%")) else {
                prop_assert!(percent == 100);
                return Ok(());
            };
            prop_assert_eq!(ppm, percent * 10_000 + tenth * 1_000);
        }
    }
}
