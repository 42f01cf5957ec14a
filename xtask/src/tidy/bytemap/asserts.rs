//! What compile-time assertions say about a layout.

use super::{Fact, number};

/// The asserted numbers: the offset of a field under its own name, the size of a type under its.
pub(super) fn facts(source: &str) -> Vec<Fact> {
    source.lines().filter_map(fact).collect()
}

fn fact(line: &str) -> Option<Fact> {
    let rest = line.trim().strip_prefix("assert!(")?;
    let (left, right) = rest.split_once("==")?;
    let value = number(right.trim_end_matches([';', ')']).trim())?;
    let left = left.trim();
    let left = left.strip_prefix("std::mem::").unwrap_or(left);
    let name = match left.strip_prefix("offset_of!(") {
        Some(arguments) => arguments.split(',').nth(1)?,
        None => left.strip_prefix("size_of::<")?.split('>').next()?,
    };
    Some(Fact {
        name: name.trim().trim_end_matches(')').to_owned(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_sizes_are_read_and_nothing_else() {
        let source = "
            assert!(size_of::<Row>() == 128);
            assert!(offset_of!(Row, loan) == 0x30);
            assert!(std::mem::offset_of!(Bucket, level) == 0);
            assert!(align_of::<Bucket>() == 64);
            assert!(a == b);
        ";
        let facts: Vec<_> = facts(source)
            .into_iter()
            .map(|f| (f.name, f.value))
            .collect();
        let expected = [("Row", 128), ("loan", 48), ("level", 0)];
        assert_eq!(
            facts,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }
}
