//! Process-local tables by address or handle: constant time at any number of entries.
//!
//! In mappings of our own, so that the application's allocator is not entered from its calls to the driver. A full shard
//! moves into one of twice the size; that is the only system call.

mod favoured;
mod shard;
mod slots;

pub(crate) use self::favoured::prepare;
use self::favoured::{Favour, Favoured, Inside};
use self::shard::Shard;
use self::slots::Key;

const SHARDS: usize = 16;

/// Values by key; 0 is not a key.
pub(crate) struct Table<V> {
    favour: Favour,
    shards: [Line<V>; SHARDS],
}

/// Shards do not share cache lines.
#[repr(align(64))]
struct Line<V>(Favoured<Shard<V>>);

/// The kernel has no memory for a larger table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

impl<V: Copy> Table<V> {
    pub(crate) const fn new() -> Self {
        Self {
            favour: Favour::new(),
            shards: [const { Line(Favoured::new(Shard::new())) }; SHARDS],
        }
    }

    /// Puts a value for a key that has none. `false` if it has, or there is no room: then nothing is changed. For where
    /// nanoseconds count.
    #[inline]
    pub(crate) fn put_new(&self, key: u64, value: V) -> bool {
        self.shard(key, true)
            .is_some_and(|(mut shard, key)| !shard.has(key) && shard.put(key, value).is_ok())
    }

    /// Removes a key. For where nanoseconds count.
    #[inline]
    pub(crate) fn take(&self, key: u64) -> Option<V> {
        let (mut shard, key) = self.shard(key, false)?;
        shard.take(key)
    }

    /// Puts a value, and gives back the one that it replaces.
    pub(crate) fn insert(&self, key: u64, value: V) -> Result<Option<V>, NoMemory> {
        let (mut shard, key) = self.lock(key, true).ok_or(NoMemory)?;
        if let Some(there) = shard.find(key) {
            return Ok(Some(core::mem::replace(there, value)));
        }
        shard.put(key, value).map(|()| None)
    }

    /// The value of a key, which is `fresh` if it had none.
    pub(crate) fn get_or_insert(&self, key: u64, fresh: V) -> Result<V, NoMemory> {
        let (mut shard, key) = self.lock(key, true).ok_or(NoMemory)?;
        if let Some(there) = shard.find(key) {
            return Ok(*there);
        }
        shard.put(key, fresh).map(|()| fresh)
    }

    /// Puts a value; one that is there is replaced, and given back, if `replaces` says so under the table's lock. `Some(None)`
    /// if it says no: then that one stays.
    pub(crate) fn insert_if(
        &self,
        key: u64,
        value: V,
        replaces: impl FnOnce() -> bool,
    ) -> Result<Option<Option<V>>, NoMemory> {
        let (mut shard, key) = self.lock(key, true).ok_or(NoMemory)?;
        if let Some(there) = shard.find(key) {
            return Ok(Some(replaces().then(|| core::mem::replace(there, value))));
        }
        shard.put(key, value).map(|()| None)
    }

    pub(crate) fn get(&self, key: u64) -> Option<V> {
        self.with(key, |value| *value)
    }

    #[inline(never)]
    pub(crate) fn remove(&self, key: u64) -> Option<V> {
        self.take(key)
    }

    /// Removes a key if its value is still the one meant: a handle may have been given to somebody else meanwhile.
    pub(crate) fn remove_if(&self, key: u64, meant: impl Fn(&V) -> bool) -> Option<V> {
        let (mut shard, key) = self.lock(key, false)?;
        if meant(shard.find(key)?) {
            shard.take(key)
        } else {
            None
        }
    }

    /// Whether nothing was ever put in.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.favour.is_fresh()
    }

    /// Shows every entry. Rare: walks the whole table.
    pub(crate) fn for_each(&self, mut show: impl FnMut(u64, &V)) {
        self.walk(&mut |key, value| {
            show(key, value);
            false
        });
    }

    /// Looks at or changes the value of a key.
    pub(crate) fn with<R>(&self, key: u64, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let (mut shard, key) = self.lock(key, false)?;
        shard.find(key).map(change)
    }

    /// Removes every entry that `goes` picks, and hands each to `gone`. Rare: walks the whole table.
    pub(crate) fn sweep(&self, goes: impl Fn(u64, &V) -> bool, mut gone: impl FnMut(u64, V)) {
        self.walk(&mut |key, value| {
            let goes = goes(key, value);
            if goes {
                gone(key, *value);
            }
            goes
        });
    }

    /// Shows every entry, and removes those for which `goes` says so. One for all callers, who are many.
    #[cold]
    #[inline(never)]
    fn walk(&self, goes: &mut dyn FnMut(u64, &V) -> bool) {
        for mut shard in self.shards() {
            shard.walk(goes);
        }
    }

    /// The shard of a key, locked.
    #[inline]
    fn shard(&self, key: u64, puts: bool) -> Option<(Inside<'_, Shard<V>>, Key)> {
        let (shard, spread) = Key::spread(key);
        let Line(shard) = self.shards.get(shard).filter(|_| key != 0)?;
        Some((shard.enter(&self.favour, puts)?, spread))
    }

    /// The same, where it is not worth its code.
    #[inline(never)]
    fn lock(&self, key: u64, puts: bool) -> Option<(Inside<'_, Shard<V>>, Key)> {
        self.shard(key, puts)
    }

    /// All of them, one after the other.
    fn shards(&self) -> impl Iterator<Item = Inside<'_, Shard<V>>> {
        let shards = self.shards.iter();
        shards.filter_map(|Line(shard)| shard.enter(&self.favour, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_map() {
        let table = Table::<u64>::new();
        let mut model = HashMap::new();
        let mut random = 7_u64;
        for _ in 0..200_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (random >> 33) % 5_000 + 1;
            let key = key << 9;
            if random >> 62 == 0 {
                assert_eq!(table.remove(key), model.remove(&key));
            } else {
                assert_eq!(table.insert(key, random), Ok(model.insert(key, random)));
            }
        }
        for (key, value) in &model {
            assert_eq!(table.with(*key, |value| *value), Some(*value));
        }
        let mut swept = 0;
        table.sweep(
            |_, value| value % 2 == 0,
            |key, value| {
                assert_eq!(model.remove(&key), Some(value));
                swept += 1;
            },
        );
        assert!(swept > 100);
        assert!(model.values().all(|value| value % 2 == 1));
        for (key, value) in &model {
            assert_eq!(table.remove(*key), Some(*value));
        }
        table.sweep(|_, _| true, |_, _| panic!("something is left"));
    }

    /// The places of what was removed are used again: a table does not grow by use.
    #[test]
    fn places_are_used_again() {
        let table = Table::<u64>::new();
        for key in 1..=100_000_u64 {
            assert_eq!(table.insert(key << 20, key), Ok(None));
            assert_eq!(table.remove(key << 20), Some(key));
        }
        assert!(table.shards().all(|shard| shard.capacity() <= 128));
    }

    #[test]
    fn the_value_of_a_key_may_be_replaced_and_removed_on_a_condition() {
        let table = Table::<u64>::new();
        assert_eq!(table.get_or_insert(7, 1), Ok(1));
        assert_eq!(table.get_or_insert(7, 2), Ok(1));
        assert_eq!(table.remove_if(7, |value| *value == 2), None);
        assert_eq!(table.remove_if(7, |value| *value == 1), Some(1));
        assert_eq!(table.get(7), None);
    }

    #[test]
    fn a_value_is_replaced_only_on_a_condition() {
        let table = Table::<u64>::new();
        assert_eq!(
            table.insert_if(7, 1, || panic!("nothing is there")),
            Ok(None)
        );
        assert_eq!(table.insert_if(7, 2, || false), Ok(Some(None)));
        assert_eq!(table.get(7), Some(1));
        assert_eq!(table.insert_if(7, 3, || true), Ok(Some(Some(1))));
        assert_eq!(table.get(7), Some(3));
    }

    #[test]
    fn zero_is_no_key() {
        let table = Table::<u64>::new();
        assert_eq!(table.insert(0, 1), Err(NoMemory));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.with(0, |_| ()), None);
    }
}
