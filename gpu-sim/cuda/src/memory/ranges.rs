//! Free parts of an address range or of a file, dealt out lowest first.

use std::collections::BTreeMap;

/// Free parts of a range, by their start.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    free: BTreeMap<usize, usize>,
}

impl Ranges {
    /// One free range.
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self {
            free: BTreeMap::from([(start, len)]),
        }
    }

    /// The lowest free place for `len` bytes at a multiple of `align`.
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(start, free): (&usize, &usize)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start.checked_add(*free)?).then_some((*start, *free, at))
        };
        let (start, free, at) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let end = start + free;
        if at + len < end {
            self.free.insert(at + len, end - at - len);
        }
        Some(at)
    }

    /// Takes exactly this range, if all of it is free.
    pub(crate) fn take_at(&mut self, at: usize, len: usize) -> bool {
        let Some((&start, &free)) = self.free.range(..=at).next_back() else {
            return false;
        };
        let end = start + free;
        if at + len > end {
            return false;
        }
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if at + len < end {
            self.free.insert(at + len, end - at - len);
        }
        true
    }

    /// Returns what [`Ranges::take`] gave; neighbours grow together.
    pub(crate) fn put(&mut self, mut start: usize, mut len: usize) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            (start, len) = (before, len + size);
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together_again() {
        let mut ranges = Ranges::new(100, 100);
        let (a, b, c) = (ranges.take(10, 1), ranges.take(10, 50), ranges.take(90, 1));
        assert_eq!((a, b, c), (Some(100), Some(150), None));
        ranges.put(150, 10);
        ranges.put(100, 10);
        assert!(!ranges.take_at(190, 20) && ranges.take_at(120, 20));
        ranges.put(120, 20);
        assert_eq!(ranges.take(100, 1), Some(100));
    }
}
