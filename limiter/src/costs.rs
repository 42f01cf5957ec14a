//! What work of each shape costs, learned from measurements.
//!
//! A table of fixed size, set-associative, without lock or allocation. A reader that meets an entry while
//! it is being replaced gets another shape's cost: an estimate that is wrong once, and settled like any.

use quota_abi::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::cost::{COST, Cost, HIGHEST};
use crate::shape::Work;

const WAYS: usize = 4;
const SET_BITS: u32 = 9;
const SETS: usize = 1 << SET_BITS;
const FUNCTION_SETS: usize = 64;
/// Costs per power of two in the histogram: four steps.
const BUCKETS: usize = 4 * 40;

/// The cost of the very first launch of a process: twice this is the bound on work in flight.
const FIRST_GUESS: i64 = 2_000_000;
/// The driver's time slice, ns, as NVIDIA documents its default.
const SLICE: i64 = 1_024_000;
/// Generations are counted above the bits that addresses have.
const GENERATION: u64 = 1 << 48;
#[derive(Debug)]
struct Entry {
    key: AtomicU64,
    value: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        Self {
            key: AtomicU64::new(0),
            value: AtomicU64::new(0),
        }
    }
}

#[derive(Debug)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

impl Set {
    const fn new() -> Self {
        Self([const { Entry::new() }; WAYS])
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key.load(Relaxed) == key)
    }

    /// The entry for `key`, which it takes over from another where there is none.
    fn claim(&self, key: u64, value: u64) -> Option<&Entry> {
        if let Some(entry) = self.find(key) {
            return Some(entry);
        }
        // The victim: a free entry, else any; bits of the key that its set is not chosen by are as good as a die.
        let die = (key >> 40) as usize % WAYS;
        let victim = self
            .0
            .iter()
            .find(|entry| entry.key.load(Relaxed) == 0)
            .or_else(|| self.0.get(die))?;
        victim.value.store(value, Relaxed);
        victim.key.store(key, Relaxed);
        Some(victim)
    }
}

/// Costs of shapes and functions, and how costs are distributed in this process.
#[derive(Debug)]
pub struct Costs {
    sets: [Set; SETS],
    functions: [Set; FUNCTION_SETS],
    histogram: [AtomicU32; BUCKETS],
    counted: AtomicU32,
    /// What most graphs of this process cost; 0: none was measured.
    graphs: AtomicI64,
    generation: Apart<AtomicU64>,
}

/// In a cache line of its own: all launches read it, and what lies beside it is written whenever something was measured.
#[derive(Debug)]
#[repr(align(64))]
struct Apart<T>(T);

impl Costs {
    pub(crate) const fn new() -> Self {
        Self {
            sets: [const { Set::new() }; SETS],
            functions: [const { Set::new() }; FUNCTION_SETS],
            histogram: [const { AtomicU32::new(0) }; BUCKETS],
            counted: AtomicU32::new(0),
            graphs: AtomicI64::new(0),
            generation: Apart(AtomicU64::new(0)),
        }
    }

    /// Part of every key. Addresses of functions and graphs are reused after an unload.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.0.load(Relaxed)
    }

    /// Forgets all shapes: functions may have other addresses from now on.
    pub fn next_generation(&self) {
        self.generation.0.fetch_add(GENERATION, Relaxed);
    }

    /// The price of a shape that is known, for a thread that pays and goes on.
    #[inline]
    #[expect(clippy::cast_possible_wrap, reason = "40 bits")]
    pub(crate) fn price(&self, shape: u64) -> Option<i64> {
        let entry = self.set(shape)?.find(shape)?;
        Some((entry.value.load(Relaxed) >> COST) as i64)
    }

    /// The cost of a shape that is known.
    #[inline]
    pub(crate) fn find(&self, shape: u64) -> Option<Cost> {
        let entry = self.set(shape)?.find(shape)?;
        Some(Cost::unpack(entry.value.load(Relaxed)))
    }

    /// The cost of a shape, which is entered with a guess where it is not known: from the cost of other
    /// sizes of the function, from what most work of this process costs, or else from what is `typical` for the group and not less than [`FIRST_GUESS`]. How much is in a graph,
    /// single kernels do not tell, but other graphs.
    pub(crate) fn find_or_guess(&self, work: &Work, typical: impl FnOnce() -> i64) -> Cost {
        if let Some(cost) = self.find(work.shape) {
            return cost;
        }
        let by_others = if work.is_graph() {
            Some(self.graphs.load(Relaxed)).filter(|ns| *ns != 0)
        } else {
            self.by_function(work).or_else(|| self.most_cost())
        };
        let guess = Cost::guess(by_others.unwrap_or_else(|| typical().max(FIRST_GUESS)));
        if let Some(set) = self.set(work.shape) {
            set.claim(work.shape, guess.pack());
        }
        guess
    }

    /// The same of a measurement that may contain others' work, and so is no reason to raise a cost. What is not known well yet is
    /// lowered to it at once, what is known step by step; and not at all where `turns` will show what is the shape's own.
    pub(crate) fn learn_at_most(
        &self,
        shape: u64,
        function: u64,
        size: u64,
        (high, whole): (i64, i64),
        turns: bool,
    ) {
        let Some(entry) = self.set(shape).and_then(|set| set.find(shape)) else {
            return;
        };
        let cost = Cost::unpack(entry.value.load(Relaxed));
        if cost.samples == 0 {
            // Half of what is longer than a slice was somebody else's.
            let own = high.min(SLICE) + (high - SLICE).max(0) / 2;
            self.learn(shape, function, size, (0, own), 1);
        } else if !turns && (cost.is_young() || whole < cost.ns) {
            let step = if cost.is_young() { 1 } else { 8 };
            let cost = Cost {
                ns: cost.ns + (cost.ns.min(whole) - cost.ns) / step,
                samples: cost.samples + 1,
                ..cost
            };
            entry.value.store(cost.pack(), Relaxed);
        }
    }

    /// Takes a measurement: so many launches of `shape` took at least and at most so many ns each.
    pub(crate) fn learn(
        &self,
        shape: u64,
        function: u64,
        size: u64,
        range: (i64, i64),
        launches: u32,
    ) {
        let Some(entry) = self.set(shape).and_then(|set| set.find(shape)) else {
            return;
        };
        let new = Cost::unpack(entry.value.load(Relaxed)).measured(range, launches);
        entry.value.store(new.pack(), Relaxed);
        if function == 0 {
            // Follows the longest quickly and the shorter ones slowly.
            let graphs = self.graphs.load(Relaxed);
            let lower = graphs - (graphs - new.ns) / 8;
            self.graphs.store(new.ns.max(lower), Relaxed);
        } else {
            self.count(new.ns);
            let value = u64::from(u32::try_from(new.ns).unwrap_or(u32::MAX))
                | u64::from(u32::try_from(size).unwrap_or(u32::MAX)) << 32;
            if let Some(entry) = self
                .function_set(function)
                .and_then(|set| set.claim(function, value))
            {
                entry.value.store(value, Relaxed);
            }
        }
    }

    /// Work of this shape has waited for a later launch.
    pub(crate) fn note_waiting(&self, shape: u64) {
        if let Some(entry) = self.set(shape).and_then(|set| set.find(shape)) {
            let cost = Cost::unpack(entry.value.load(Relaxed));
            entry.value.store(
                Cost {
                    waits: true,
                    ..cost
                }
                .pack(),
                Relaxed,
            );
        }
    }

    /// The next launch of this shape counts as the first of its kind, at the cost it had so far: a graph
    /// that was updated.
    pub fn doubt(&self, shape: u64) {
        if let Some(entry) = self.set(shape).and_then(|set| set.find(shape)) {
            let cost = Cost::unpack(entry.value.load(Relaxed));
            entry
                .value
                .store(Cost { samples: 0, ..cost }.pack(), Relaxed);
        }
    }

    /// Forgets a shape: its handle may come to stand for something else.
    pub fn forget(&self, shape: u64) {
        if let Some(entry) = self.set(shape).and_then(|set| set.find(shape)) {
            entry.key.store(0, Relaxed);
        }
    }

    #[inline]
    fn set(&self, shape: u64) -> Option<&Set> {
        self.sets.get((shape >> (64 - SET_BITS)) as usize)
    }

    fn function_set(&self, function: u64) -> Option<&Set> {
        self.functions
            .get((function >> 20) as usize % FUNCTION_SETS)
    }

    /// From another size of the same function: in proportion where this one is larger, and never less
    /// than the other, because few blocks take as long as one wave of them.
    fn by_function(&self, work: &Work) -> Option<i64> {
        let entry = self.function_set(work.function)?.find(work.function)?;
        let value = entry.value.load(Relaxed);
        let (ns, size) = (value & u64::from(u32::MAX), value >> 32);
        let scaled = u128::from(ns) * u128::from(work.size) / u128::from(size.max(1));
        let scaled = i64::try_from(scaled).unwrap_or(HIGHEST).min(HIGHEST);
        i64::try_from(ns).ok().map(|ns| ns.max(scaled))
    }

    fn count(&self, ns: i64) {
        if let Some(bucket) = self.histogram.get(bucket(ns)) {
            bucket.fetch_add(1, Relaxed);
        }
        if self.counted.fetch_add(1, Relaxed) >= 4096 {
            self.counted.store(2048, Relaxed);
            for bucket in &self.histogram {
                bucket.store(bucket.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// What nine of ten measurements stay below.
    fn most_cost(&self) -> Option<i64> {
        let total: u64 = self
            .histogram
            .iter()
            .map(|bucket| u64::from(bucket.load(Relaxed)))
            .sum();
        let mut above = total / 10;
        for (index, bucket) in self.histogram.iter().enumerate().rev() {
            let count = u64::from(bucket.load(Relaxed));
            if count > above {
                return Some(upper_edge(index));
            }
            above -= count;
        }
        None
    }
}

/// Which histogram bucket a cost falls into: four per power of two.
fn bucket(ns: i64) -> usize {
    let ns = ns.clamp(4, HIGHEST).unsigned_abs();
    let exponent = ns.ilog2();
    let quarter = (ns >> (exponent - 2)) & 3;
    ((exponent as usize) * 4 + usize::try_from(quarter).unwrap_or(0)).min(BUCKETS - 1)
}

/// The first cost above a bucket.
fn upper_edge(index: usize) -> i64 {
    let (exponent, quarter) = (index / 4, index % 4);
    let base = 1_i64 << exponent.min(40);
    base + base / 4 * (i64::try_from(quarter).unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Geometry, Stream};

    fn work(function: usize, blocks: u32) -> Work {
        let geometry = Geometry {
            grid: [blocks, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let stream = Stream {
            handle: 0,
            per_thread: false,
        };
        Work::kernel(function, geometry, 0, stream, false)
    }

    fn measure(costs: &Costs, work: &Work, ns: i64) {
        costs.find_or_guess(work, || 0);
        costs.learn(work.shape, work.function, work.size, (ns, ns), 1);
    }

    #[test]
    fn guesses_come_from_the_nearest_thing_known() {
        let costs = Costs::new();
        assert_eq!(costs.find_or_guess(&work(1, 100), || 0).ns, FIRST_GUESS);
        measure(&costs, &work(1, 100), 10_000);
        // Another size of the function: in proportion, never less.
        assert_eq!(costs.find_or_guess(&work(1, 1000), || 0).ns, 100_000);
        assert_eq!(costs.find_or_guess(&work(1, 1), || 0).ns, 10_000);
        // Another function: what nine of ten measurements stay below.
        for function in 10..30 {
            measure(&costs, &work(function, 1), 50_000);
        }
        let guess = costs.find_or_guess(&work(99, 1), || 0).ns;
        assert!((50_000..70_000).contains(&guess), "{guess}");
    }

    #[test]
    fn a_graph_that_is_not_known_costs_what_graphs_cost() {
        let costs = Costs::new();
        let graph = |exec| Work::graph(exec, 0, work(1, 1).stream);
        assert_eq!(costs.find_or_guess(&graph(0x100), || 0).ns, FIRST_GUESS);
        for function in 10..30 {
            measure(&costs, &work(function, 1), 5_000);
        }
        assert_eq!(costs.find_or_guess(&graph(0x200), || 0).ns, FIRST_GUESS);
        measure(&costs, &graph(0x100), 50_000_000);
        assert_eq!(costs.find_or_guess(&graph(0x300), || 0).ns, 50_000_000);
        for exec in 1..40 {
            measure(&costs, &graph(0x1000 * exec), 100_000);
        }
        let guess = costs.find_or_guess(&graph(0x400), || 0).ns;
        assert!((100_000..1_000_000).contains(&guess), "{guess}");
    }

    #[test]
    fn a_cost_follows_measurements() {
        let costs = Costs::new();
        let work = work(1, 1);
        measure(&costs, &work, 100_000);
        assert_eq!(costs.find(work.shape).unwrap().ns, 100_000);
        for _ in 0..40 {
            measure(&costs, &work, 300_000);
        }
        let cost = costs.find(work.shape).unwrap();
        assert!((295_000..=300_000).contains(&cost.ns), "{cost:?}");
        assert!(!cost.is_young());
    }

    #[test]
    fn a_range_that_contains_the_cost_changes_nothing() {
        let costs = Costs::new();
        let work = work(1, 1);
        measure(&costs, &work, 100_000);
        costs.learn(work.shape, work.function, work.size, (10_000, 5_000_000), 1);
        assert_eq!(costs.find(work.shape).unwrap().ns, 100_000);
        costs.learn(work.shape, work.function, work.size, (0, 60_000), 1);
        assert_eq!(costs.find(work.shape).unwrap().ns, 90_000);
    }

    #[test]
    fn a_new_generation_knows_nothing() {
        let costs = Costs::new();
        measure(&costs, &work(1, 1), 100_000);
        costs.next_generation();
        let geometry = Geometry {
            grid: [1; 3],
            block: [256, 1, 1],
            shared: 0,
        };
        let stream = Stream {
            handle: 0,
            per_thread: false,
        };
        let again = Work::kernel(1, geometry, costs.generation(), stream, false);
        assert_eq!(costs.find(again.shape), None);
    }

    #[test]
    fn a_full_table_replaces_and_never_mixes_up() {
        let costs = Costs::new();
        for function in 1..20_000 {
            measure(
                &costs,
                &work(function, 1),
                i64::try_from(function).unwrap() * 1000,
            );
        }
        let mut kept = 0;
        for function in 1..20_000 {
            if let Some(cost) = costs.find(work(function, 1).shape) {
                kept += 1;
                assert_eq!(cost.ns, i64::try_from(function).unwrap() * 1000);
            }
        }
        assert!(kept > SETS * WAYS / 2, "{kept}");
    }

    #[test]
    fn a_histogram_bucket_ends_above_what_falls_into_it() {
        for ns in [4, 5, 7, 8, 1000, 1023, 1024, 123_456, 2_000_000, HIGHEST] {
            let edge = upper_edge(bucket(ns));
            assert!(edge > ns && edge <= ns + ns / 4 + 1, "{ns}: {edge}");
        }
    }
}
