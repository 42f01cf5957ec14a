//! The account of GPU time that the processes of a container share, one per device.
//!
//! A [`Bucket`] holds nanoseconds of GPU time. It fills with the clock at the container's rate; work is
//! charged before it is launched, and corrected when its real duration is known. A positive level may be
//! spent; a negative one is debt, which the clock has to repay before anything else is admitted.
//!
//! No lock, and no operation of several words that has to be finished: a process that is killed anywhere
//! leaves a bucket that works. What one kill can lose, always to the container's disadvantage, is one refill
//! (what was earned since the one before) and what the killed process's threads had taken and not spent.
//!
//! Time is an argument everywhere: nanoseconds of the host's `CLOCK_MONOTONIC`.

mod booking;

use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Refills closer together than this are left to the next one: rounding then loses at most 1 ns in 200.
const REFILL_STEP: u64 = 10_000;

/// How long a bucket stays at a process's rate after that process was last heard of.
const RATE_LEASE: u64 = 100_000_000;

/// A stamp this far ahead of the reader's clock is not another process's fresher reading but damage.
const STAMP_AHEAD: u64 = 1_000_000_000;

/// No debt takes longer than this to be repaid, whatever was charged: what a wrong measurement, a damaged region, or a
/// process that is long dead can cost the group. A single kernel that uses more than is earned in this time gets the
/// rest for nothing: 1.2 s at 2 %.
const LONGEST_DEBT: u64 = 60_000_000_000;

/// What is given back raises the level to what this time earns, ns, at most.
const MOST_GIVEN_BACK: u64 = 1_000_000_000;

/// Nothing is called typical that takes longer, ns.
const MOST_TYPICAL: i64 = 1_000_000_000;

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A kernel.
    Kernel,
    /// An executable graph.
    Graph,
}

/// Bursts that are saved up while others have the device: as long as one of their kernels may take beyond their turn, and a turn.
const AFTER_OTHERS: i64 = 30;

/// The most that is saved up then.
fn saving(rate: Rate) -> i64 {
    rate.burst().saturating_mul(AFTER_OTHERS)
}

/// The most that one charge can take from the level: it cannot overflow.
const MOST_CHARGED: i64 = 100_000_000_000;

/// A share of one device's time, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u32);

impl Rate {
    /// `ppm` parts per million. `None` if that is no limit at all (a million or more) or no time at all.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm == 0 || ppm >= 1_000_000 {
            None
        } else {
            Some(Self(ppm))
        }
    }

    /// `ppm` parts per million, where the whole device is a rate like any other: between one part and all of them.
    #[must_use]
    pub const fn up_to_whole(ppm: u32) -> Self {
        match ppm {
            0 => Self(1),
            1_000_000.. => Self(1_000_000),
            ppm => Self(ppm),
        }
    }

    /// Whether it is the whole device, or all but a millionth of it: what a daemon gives as an own rate, because a whole one would
    /// be no rate, is no reason to wait either.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.0 >= 999_999
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// GPU time earned in `elapsed` ns.
    #[must_use]
    pub fn earned(self, elapsed: u64) -> i64 {
        let earned = u128::from(elapsed) * u128::from(self.0) / 1_000_000;
        i64::try_from(earned).unwrap_or(i64::MAX)
    }

    /// How long it takes to earn `gpu_ns`, rounded up.
    #[must_use]
    pub fn time_for(self, gpu_ns: i64) -> u64 {
        let gpu_ns = u128::from(gpu_ns.max(0).unsigned_abs());
        let time = (gpu_ns * 1_000_000).div_ceil(u128::from(self.0));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// The most that idleness saves up: what 100 ms earn, between 0.5 and 10 ms of GPU time. Large
    /// enough that a thread that is woken late loses nothing, small enough not to show in a share.
    #[must_use]
    pub fn burst(self) -> i64 {
        self.earned(100_000_000).clamp(500_000, 10_000_000)
    }

    /// The deepest debt: what a minute earns.
    #[must_use]
    pub fn deepest_debt(self) -> i64 {
        self.earned(LONGEST_DEBT)
    }

    /// The level at which a waiting thread goes on: what 5 ms earn, between 50 and 500 µs of GPU time.
    /// Work then comes in bursts that are short against the driver's time slice and long against the
    /// cost of a wake-up.
    #[must_use]
    pub fn resume(self) -> i64 {
        self.earned(5_000_000).clamp(50_000, 500_000)
    }

    /// What a thread takes at once: what 2 ms earn, between 10 and 100 µs of GPU time.
    #[must_use]
    pub fn batch(self) -> i64 {
        self.earned(2_000_000).clamp(10_000, 100_000)
    }
}

/// GPU time of one device, shared by a container's processes. All zero is a bucket never used.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Bucket {
    /// Nanoseconds of GPU time that may be spent; negative: debt.
    level: AtomicI64,
    /// Up to when the clock has been credited. 0: never used.
    refilled_at: AtomicU64,
    /// Sum of all charges. `charged - returned` is the GPU time used.
    charged: AtomicU64,
    /// Sum of all that was given back: unused batches, and estimates that were too high.
    returned: AtomicU64,
    /// The rate it fills at: the highest among the processes that used it in the last 100 ms.
    rate: AtomicU32,
    /// Waiting threads sleep on this word; whoever changes a limit increments and wakes.
    wake: AtomicU32,
    /// Where the processes agree on the rate: until when it holds without being confirmed. Where a daemon says it: what was saved up
    /// beyond a burst while others had the device; no such time is as small.
    rate_until: AtomicU64,
    /// When all that was admitted will have run, if the device does nothing else: see [`Bucket::book`].
    ends_at: AtomicU64,
    /// Until when work is said to go on that is longer than it was booked for.
    overdue_until: AtomicU64,
    /// Nanoseconds that launches were made to wait, summed over threads.
    waited: AtomicU64,
    /// How many launches were made to wait.
    waits: AtomicU64,
    /// Launches charged, of kernels and of graphs; copies and fills on the device included.
    launches: AtomicU64,
    /// GPU time that was settled by measurement.
    measured: AtomicU64,
    /// What had been charged for the same work before it was measured.
    estimated: AtomicU64,
    /// Launches admitted because they had waited long enough, not because there was time for them.
    forced: AtomicU64,
    /// What a launch of a kernel, and of a graph, takes in this group: for a process that has not measured any. 0: unknown.
    typical: [AtomicU64; 2],
}

const _: () = {
    assert!(size_of::<Bucket>() == 128);
    assert!(align_of::<Bucket>() == 64);
    assert!(std::mem::offset_of!(Bucket, level) == 0);
    assert!(std::mem::offset_of!(Bucket, refilled_at) == 8);
    assert!(std::mem::offset_of!(Bucket, charged) == 16);
    assert!(std::mem::offset_of!(Bucket, returned) == 24);
    assert!(std::mem::offset_of!(Bucket, rate) == 32);
    assert!(std::mem::offset_of!(Bucket, wake) == 36);
    assert!(std::mem::offset_of!(Bucket, rate_until) == 40);
    assert!(std::mem::offset_of!(Bucket, ends_at) == 48);
    assert!(std::mem::offset_of!(Bucket, overdue_until) == 56);
    assert!(std::mem::offset_of!(Bucket, waited) == 64);
    assert!(std::mem::offset_of!(Bucket, waits) == 72);
    assert!(std::mem::offset_of!(Bucket, launches) == 80);
    assert!(std::mem::offset_of!(Bucket, measured) == 88);
    assert!(std::mem::offset_of!(Bucket, estimated) == 96);
    assert!(std::mem::offset_of!(Bucket, forced) == 104);
    assert!(std::mem::offset_of!(Bucket, typical) == 112);
};

/// What [`Bucket::take`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many nanoseconds now belong to the caller.
    Granted(i64),
    /// There is nothing to spend; this is the level.
    Empty(i64),
}

/// A bucket's counters, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// GPU time that may be spent (negative: debt), ns.
    pub level: i64,
    /// GPU time used, estimates included that are not settled yet, ns.
    pub used: u64,
    /// Time that launches were made to wait, summed over threads, ns.
    pub waited: u64,
    /// Launches that were made to wait.
    pub waits: u64,
    /// Launches charged.
    pub launches: u64,
    /// GPU time settled by measurement, ns.
    pub measured: u64,
    /// What had been charged for that work before it was measured, ns.
    pub estimated: u64,
    /// Launches admitted without time for them.
    pub forced: u64,
    /// The rate it fills at, in parts per million; 0 before the first use.
    pub rate_ppm: u32,
}

impl Bucket {
    /// Credits the time since the last refill at the bucket's rate, takes note that a process with rate
    /// `own` is alive, and returns the level.
    pub fn refill(&self, now: u64, own: Rate) -> i64 {
        let last = self.refilled_at.load(Relaxed);
        let rate = self.agree(now, own);
        self.fill(last, now, rate, own, own.burst())
    }

    /// The same for one whose work in flight took longer than it was charged for: what was earned while it ran will be charged for it, and is
    /// not lost.
    pub fn refill_after_own(&self, now: u64, own: Rate) -> i64 {
        let last = self.refilled_at.load(Relaxed);
        let rate = self.agree(now, own);
        self.fill(last, now, rate, own, saving(own))
    }

    /// The same where one authority says what the rate is: taken up at once, in whatever direction. The time since the last
    /// refill is credited at the lower of the two.
    pub fn impose(&self, now: u64, rate: Rate) -> i64 {
        let last = self.refilled_at.load(Relaxed);
        let before = self.rate().unwrap_or(rate);
        if self.rate.load(Relaxed) != rate.ppm() {
            self.rate.store(rate.ppm(), Relaxed);
        }
        if before > rate {
            // What a higher rate saved up is not for a lower one.
            let _ = self.level.fetch_update(Relaxed, Relaxed, |level| {
                (level > rate.burst()).then_some(rate.burst())
            });
        }
        let saved = self.saved(rate);
        if saved == 0 {
            return self.fill(last, now, before.min(rate), rate, rate.burst());
        }
        // Who has all of the device has so much less by now.
        let elapsed = i64::try_from(now.saturating_sub(last)).unwrap_or(i64::MAX);
        let saved = saved.saturating_sub(elapsed - rate.earned(elapsed.unsigned_abs()));
        let level = self.fill(last, now, before.min(rate), rate, saved.max(rate.burst()));
        if self.refilled_at.load(Relaxed) != last {
            self.save(saved, rate);
        }
        level
    }

    /// The same for one who could not spend anything since the last refill, because others had the device, or its own work took longer than
    /// it was charged for: what was earned meanwhile is not lost.
    pub fn impose_after_others(&self, now: u64, rate: Rate) -> i64 {
        let last = self.refilled_at.load(Relaxed);
        let before = self.rate().unwrap_or(rate);
        let level = self.fill(last, now, before.min(rate), rate, saving(rate));
        self.save(level.max(self.saved(rate)), rate);
        level
    }

    /// What was saved up beyond a burst, less what one who has had all of the device since then has spent of it: so long the clock goes on
    /// being credited. Who has the device and does not use it loses what was saved up.
    fn saved(&self, rate: Rate) -> i64 {
        let saved = i64::try_from(self.rate_until.load(Relaxed)).unwrap_or(0);
        // Else it is what a process without a daemon's rate has left there, or damage.
        if saved <= saving(rate) { saved } else { 0 }
    }

    fn save(&self, level: i64, rate: Rate) {
        let saved = if level > rate.burst() {
            level.unsigned_abs()
        } else {
            0
        };
        self.rate_until.store(saved, Relaxed);
    }

    /// Credits the time since `last` at `rate`, up to `most`; begins at `own`.
    fn fill(&self, last: u64, now: u64, rate: Rate, own: Rate, most: i64) -> i64 {
        if last == 0 {
            if self.stamp(last, now) {
                self.raise(own.resume(), own.burst());
            }
        } else if now >= last.saturating_add(REFILL_STEP) {
            // The stamp first: killed in between, the container loses a refill rather than getting two.
            if self.stamp(last, now) {
                self.credit(rate, now - last, most);
            }
        } else if last > now.saturating_add(STAMP_AHEAD) {
            self.stamp(last, now);
        }
        self.level()
    }

    /// The level as last left, without a refill.
    pub fn level(&self) -> i64 {
        self.level.load(Relaxed)
    }

    /// Takes `least` or up to `most` nanoseconds if the level is at least `from`, and positive. `least` may
    /// exceed the level: the rest becomes debt.
    pub fn take(&self, from: i64, least: i64, most: i64) -> Taken {
        let mut level = self.level.load(Relaxed);
        while level >= from.max(1) {
            let amount = level.min(most).max(least).max(0);
            match self.level.compare_exchange_weak(
                level,
                level.saturating_sub(amount),
                Relaxed,
                Relaxed,
            ) {
                Ok(_) => {
                    self.charged.fetch_add(amount.unsigned_abs(), Relaxed);
                    return Taken::Granted(amount);
                }
                Err(changed) => level = changed,
            }
        }
        Taken::Empty(level)
    }

    /// Charges whatever the level is: for work that is admitted all the same, and for work that turned
    /// out to be longer than its estimate.
    pub fn charge(&self, gpu_ns: i64) {
        if gpu_ns > 0 {
            self.level.fetch_sub(gpu_ns.min(MOST_CHARGED), Relaxed);
            self.charged.fetch_add(gpu_ns.unsigned_abs(), Relaxed);
        }
    }

    /// Forgives debt, and gives what is missing to this level.
    pub fn lift(&self, level: i64) {
        self.level.fetch_max(level, Relaxed);
    }

    /// Gives back what was charged and not used. The level rises to no more than what a second earns: debt that was
    /// forgiven ([`LONGEST_DEBT`]) must not come back as credit when its estimate turns out too high.
    pub fn give_back(&self, gpu_ns: i64) {
        if gpu_ns > 0 {
            let most = self
                .rate()
                .map_or(i64::MAX, |rate| rate.earned(MOST_GIVEN_BACK));
            self.raise(gpu_ns, most);
            self.returned.fetch_add(gpu_ns.unsigned_abs(), Relaxed);
        }
    }

    /// Replaces an estimate by what was measured.
    pub fn settle(&self, estimated: i64, measured: i64) {
        if measured > estimated {
            self.charge(measured - estimated);
        } else {
            self.give_back(estimated - measured);
        }
        self.rebook(measured.saturating_sub(estimated));
        self.estimated
            .fetch_add(estimated.max(0).unsigned_abs(), Relaxed);
        self.measured
            .fetch_add(measured.max(0).unsigned_abs(), Relaxed);
    }

    /// Takes note of what a launch took: follows the longest at once, and shorter ones slowly. Two processes at once may lose
    /// one of the two; the next one makes up for it.
    pub fn learn(&self, kind: Kind, gpu_ns: i64) {
        let word = self.typical_of(kind);
        let before = word.load(Relaxed);
        let took = gpu_ns.max(0).unsigned_abs();
        let after = took.max(before - before / 64);
        if after != before {
            word.store(after, Relaxed);
        }
    }

    /// What a launch may take that this process knows nothing of; a second at most, whatever the region says.
    pub fn typical(&self, kind: Kind) -> i64 {
        let word = self.typical_of(kind).load(Relaxed);
        i64::try_from(word).unwrap_or(i64::MAX).min(MOST_TYPICAL)
    }

    fn typical_of(&self, kind: Kind) -> &AtomicU64 {
        let [kernel, graph] = &self.typical;
        match kind {
            Kind::Kernel => kernel,
            Kind::Graph => graph,
        }
    }

    /// Counts `launches` charged launches.
    pub fn count_launches(&self, launches: u64) {
        self.launches.fetch_add(launches, Relaxed);
    }

    /// Counts one launch that waited `ns`; `forced` if it was admitted without time for it.
    pub fn count_wait(&self, ns: u64, forced: bool) {
        self.waits.fetch_add(1, Relaxed);
        self.waited.fetch_add(ns, Relaxed);
        if forced {
            self.forced.fetch_add(1, Relaxed);
        }
    }

    /// GPU time used so far: what was charged and not given back.
    pub fn used(&self) -> u64 {
        // `returned` first: a charge that comes in between makes the difference too high, never negative.
        let returned = self.returned.load(Relaxed);
        self.charged.load(Relaxed).saturating_sub(returned)
    }

    /// Up to when the clock has been credited: when anybody last had a look at it. 0: never used.
    pub fn refilled_at(&self) -> u64 {
        self.refilled_at.load(Relaxed)
    }

    /// The rate it fills at.
    pub fn rate(&self) -> Option<Rate> {
        let ppm = self.rate.load(Relaxed);
        (ppm > 0).then(|| Rate::up_to_whole(ppm))
    }

    /// The word that waiting threads sleep on.
    pub fn wake_word(&self) -> &AtomicU32 {
        &self.wake
    }

    /// All counters.
    pub fn read(&self) -> Reading {
        Reading {
            level: self.level(),
            used: self.used(),
            waited: self.waited.load(Relaxed),
            waits: self.waits.load(Relaxed),
            launches: self.launches.load(Relaxed),
            measured: self.measured.load(Relaxed),
            estimated: self.estimated.load(Relaxed),
            forced: self.forced.load(Relaxed),
            rate_ppm: self.rate.load(Relaxed),
        }
    }

    /// The rate for the time since the last refill; then `own` is taken up if it is higher, or if nobody
    /// with a higher one has been heard of for [`RATE_LEASE`].
    fn agree(&self, now: u64, own: Rate) -> Rate {
        let before = Rate::from_ppm(self.rate.load(Relaxed));
        let until = self.rate_until.load(Relaxed);
        match before {
            Some(rate)
                if rate > own && now <= until && until <= now.saturating_add(STAMP_AHEAD) =>
            {
                rate
            }
            Some(rate) if rate == own => {
                if until < now.saturating_add(RATE_LEASE / 2) {
                    self.rate_until
                        .store(now.saturating_add(RATE_LEASE), Relaxed);
                }
                rate
            }
            _ => {
                // Torn by a kill, the pair is a rate with too short or too long a lease: 100 ms at most.
                self.rate_until
                    .store(now.saturating_add(RATE_LEASE), Relaxed);
                self.rate.store(own.ppm(), Relaxed);
                before.map_or(own, |rate| rate.min(own))
            }
        }
    }

    /// Moves the stamp; false if another process did.
    fn stamp(&self, last: u64, now: u64) -> bool {
        self.refilled_at
            .compare_exchange(last, now, Relaxed, Relaxed)
            .is_ok()
    }

    /// Adds what was earned, up to `most`; what is above it already (given back) stays.
    fn credit(&self, rate: Rate, elapsed: u64, most: i64) {
        let level = self.level.load(Relaxed);
        let sound = level.clamp(
            -rate.deepest_debt(),
            rate.earned(MOST_GIVEN_BACK).max(rate.burst()),
        );
        if level != sound {
            // Lost against another process's change, the next refill does it.
            let _ = self.level.compare_exchange(level, sound, Relaxed, Relaxed);
        }
        self.raise(rate.earned(elapsed), most);
    }

    /// Adds to the level, up to `most`; what is above it already stays.
    fn raise(&self, gpu_ns: i64, most: i64) {
        let mut level = self.level.load(Relaxed);
        loop {
            let raised = level.saturating_add(gpu_ns).min(most.max(level));
            match self
                .level
                .compare_exchange_weak(level, raised, Relaxed, Relaxed)
            {
                Ok(_) => return,
                Err(changed) => level = changed,
            }
        }
    }
}

/// One process's own view of a shared bucket, for a process whose rate is lower than the bucket's.
///
/// Standalone, every process enforces its own variables on the common sum: a process with 30 % starts no
/// work while the group as a whole is above 30 %, even if another process of the group may go to 60 %.
/// So that the slower one is not starved, its own debt never asks for more than 100 ms of waiting.
#[derive(Debug, Default)]
pub struct OwnShare {
    level: AtomicI64,
    at: AtomicU64,
    seen: AtomicU64,
}

impl OwnShare {
    /// A share that has earned and seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            level: AtomicI64::new(0),
            at: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// What this process may spend by its own rate. As long as the bucket is not faster than the process,
    /// that is whatever the bucket holds.
    pub fn refill(&self, bucket: &Bucket, now: u64, own: Rate) -> i64 {
        let used = bucket.used();
        let fresh = self.at.load(Relaxed) == 0;
        if fresh || bucket.rate().is_none_or(|rate| rate <= own) {
            self.level.store(own.resume(), Relaxed);
            self.at.store(now, Relaxed);
            self.seen.store(used, Relaxed);
            return if fresh { own.resume() } else { i64::MAX };
        }
        let last = self.at.load(Relaxed);
        if now >= last.saturating_add(REFILL_STEP)
            && self
                .at
                .compare_exchange(last, now, Relaxed, Relaxed)
                .is_ok()
        {
            let seen = self.seen.swap(used, Relaxed);
            let spent = i64::try_from(used.abs_diff(seen)).unwrap_or(i64::MAX);
            let spent = if used < seen { -spent } else { spent };
            let change = own.earned(now - last).saturating_sub(spent);
            let level = self.level.load(Relaxed);
            let level = level
                .saturating_add(change)
                .clamp(-own.earned(RATE_LEASE), own.burst());
            self.level.store(level, Relaxed);
        }
        self.level.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MS_GPU: i64 = 1_000_000;
    /// Any time that is not 0.
    const BEGIN: u64 = 1_000 * MS;

    fn rate(percent: u32) -> Rate {
        Rate::from_ppm(percent * 10_000).unwrap()
    }

    #[test]
    fn a_whole_device_is_no_limit_and_nothing_is_no_rate() {
        assert_eq!(Rate::from_ppm(1_000_000), None);
        assert_eq!(Rate::from_ppm(0), None);
        assert_eq!(rate(30).ppm(), 300_000);
    }

    #[test]
    fn rates_and_times_are_inverse_and_saturate() {
        assert_eq!(rate(30).earned(10 * MS), 3 * MS_GPU);
        assert_eq!(rate(30).time_for(3 * MS_GPU), 10 * MS);
        assert_eq!(rate(30).time_for(-5), 0);
        assert_eq!(Rate::from_ppm(1).unwrap().time_for(i64::MAX), u64::MAX);
        assert!(rate(99).earned(u64::MAX) > 0);
        for percent in 1..100 {
            let rate = rate(percent);
            assert!(rate.batch() <= rate.resume() && rate.resume() < rate.burst());
        }
    }

    #[test]
    fn it_fills_with_the_clock_and_no_further_than_a_burst() {
        let bucket = Bucket::default();
        let first = bucket.refill(BEGIN, rate(30));
        assert_eq!(first, rate(30).resume());
        assert_eq!(bucket.refill(BEGIN + 10 * MS, rate(30)), first + 3 * MS_GPU);
        assert_eq!(bucket.refill(BEGIN + 900 * MS, rate(30)), rate(30).burst());
        assert_eq!(bucket.used(), 0);
    }

    #[test]
    fn refills_in_small_steps_lose_next_to_nothing() {
        let bucket = Bucket::default();
        let mut now = BEGIN;
        let first = bucket.refill(now, rate(2));
        for _ in 0..5_000 {
            now += 11_111;
            bucket.refill(now, rate(2));
        }
        let earned = bucket.level() - first;
        let exact = rate(2).earned(now - BEGIN);
        assert!(
            earned <= exact && earned > exact - exact / 100,
            "{earned} of {exact}"
        );
    }

    #[test]
    fn what_is_taken_may_end_in_debt_which_the_clock_repays() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(50));
        assert_eq!(bucket.take(1, 9 * MS_GPU, 0), Taken::Granted(9 * MS_GPU));
        let Taken::Empty(level) = bucket.take(1, 1, 1) else {
            panic!("took from debt");
        };
        assert_eq!(level, rate(50).resume() - 9 * MS_GPU);
        let wait = rate(50).time_for(1 - level);
        assert!(bucket.refill(BEGIN + wait - 100_000, rate(50)) <= 0);
        assert!(bucket.refill(BEGIN + wait, rate(50)) > 0);
        assert_eq!(bucket.used(), 9 * MS);
    }

    #[test]
    fn who_waits_for_more_is_not_given_less() {
        let bucket = Bucket::default();
        let resume = rate(30).resume();
        assert_eq!(bucket.refill(BEGIN, rate(30)), resume);
        assert_eq!(bucket.take(resume, 10, 10), Taken::Granted(10));
        assert_eq!(bucket.take(resume, 10, 10), Taken::Empty(resume - 10));
        assert_eq!(bucket.take(1, 10, 10), Taken::Granted(10));
    }

    #[test]
    fn settling_replaces_the_estimate() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(50));
        let begin = bucket.level();
        bucket.charge(2 * MS_GPU);
        bucket.settle(2 * MS_GPU, MS_GPU / 2);
        bucket.charge(MS_GPU);
        bucket.settle(MS_GPU, 4 * MS_GPU);
        assert_eq!(bucket.level(), begin - 4 * MS_GPU - MS_GPU / 2);
        let reading = bucket.read();
        assert_eq!(reading.used, 4 * MS + MS / 2);
        assert_eq!(reading.measured, 4 * MS + MS / 2);
        assert_eq!(reading.estimated, 3 * MS);
    }

    #[test]
    fn what_is_given_back_stays_even_above_a_burst() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(50));
        bucket.give_back(90 * MS_GPU);
        let level = bucket.level();
        assert_eq!(bucket.refill(BEGIN + 50 * MS, rate(50)), level);
    }

    #[test]
    fn debt_is_repaid_within_a_minute_whatever_was_charged() {
        for percent in [1, 2, 30, 99] {
            let bucket = Bucket::default();
            let rate = rate(percent);
            bucket.refill(BEGIN, rate);
            for _ in 0..100 {
                bucket.charge(i64::MAX);
            }
            let level = bucket.refill(BEGIN + MS, rate);
            let wait = rate.time_for(rate.resume() - level);
            assert!((50_000 * MS..61_000 * MS).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn forgiven_debt_does_not_come_back_as_credit() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(2));
        bucket.charge(50_000 * MS_GPU);
        bucket.refill(BEGIN + MS, rate(2));
        bucket.settle(50_000 * MS_GPU, MS_GPU);
        let level = bucket.refill(BEGIN + 2 * MS, rate(2));
        assert!(level <= 20 * MS_GPU, "{level}");
    }

    #[test]
    fn what_is_typical_follows_the_longest_and_forgets_it_slowly() {
        let bucket = Bucket::default();
        assert_eq!(bucket.typical(Kind::Kernel), 0);
        bucket.learn(Kind::Kernel, 50 * MS_GPU);
        bucket.learn(Kind::Kernel, MS_GPU);
        let typical = bucket.typical(Kind::Kernel);
        assert!((45 * MS_GPU..=50 * MS_GPU).contains(&typical), "{typical}");
        assert_eq!(bucket.typical(Kind::Graph), 0);
        for _ in 0..500 {
            bucket.learn(Kind::Kernel, MS_GPU);
        }
        assert!(bucket.typical(Kind::Kernel) < 2 * MS_GPU);
        bucket.typical[1].store(u64::MAX, Relaxed);
        assert_eq!(bucket.typical(Kind::Graph), MOST_TYPICAL);
    }

    /// A new process finds the bucket as its group has left it.
    #[test]
    fn debt_is_inherited() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(10));
        bucket.charge(200 * MS_GPU);
        assert!(bucket.refill(BEGIN + 1000 * MS, rate(10)) < -90 * MS_GPU);
    }

    #[test]
    fn it_fills_at_the_highest_rate_in_use_and_falls_back_when_that_is_gone() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(30));
        bucket.charge(1000 * MS_GPU);
        bucket.refill(BEGIN + MS, rate(60));
        let begin = bucket.refill(BEGIN + 2 * MS, rate(60));
        assert_eq!(bucket.refill(BEGIN + 12 * MS, rate(30)), begin + 6 * MS_GPU);
        assert_eq!(bucket.rate(), Some(rate(60)));
        // Not heard of for 100 ms: the other one's rate holds, from the last refill on.
        bucket.refill(BEGIN + 101 * MS, rate(30));
        bucket.refill(BEGIN + 110 * MS, rate(30));
        assert_eq!(bucket.rate(), Some(rate(30)));
        let begin = bucket.level();
        assert_eq!(
            bucket.refill(BEGIN + 120 * MS, rate(30)),
            begin + 3 * MS_GPU
        );
    }

    /// A cap of 75 % that waited 50 ms for another's turn has all of the device for three times as long.
    #[test]
    fn what_was_earned_while_others_had_the_device_is_spent_while_more_is_earned() {
        let bucket = Bucket::default();
        let rate = Rate::from_ppm(750_000).unwrap();
        let begin = 1 << 40;
        bucket.impose(begin, rate);
        while bucket.level() > 0 {
            bucket.take(1, 100_000, 100_000);
        }
        let mut now = begin + 50_000_000;
        bucket.impose_after_others(now, rate);
        let mut spent = 0;
        loop {
            // More often than the clock is credited, and ahead of the device for a while.
            let ahead = spent % 3_000_000 < 1_500_000;
            now += if ahead { 1_000 } else { 7_000 };
            bucket.impose(now, rate);
            match bucket.take(1, 4_000, 4_000) {
                Taken::Granted(amount) => spent += amount,
                Taken::Empty(_) => break,
            }
        }
        assert!((145_000_000..155_000_000).contains(&spent), "{spent}");
        // It was spent, and nothing is left to be saved up to.
        bucket.impose(now + 1_000_000_000, rate);
        assert_eq!(bucket.level(), rate.burst());
    }

    #[test]
    fn an_imposed_rate_holds_at_once_in_both_directions() {
        let bucket = Bucket::default();
        bucket.impose(BEGIN, rate(30));
        bucket.charge(100 * MS_GPU);
        let begin = bucket.level();
        // Raised: what has gone by was earned at the lower rate, what comes is at the higher one.
        assert_eq!(bucket.impose(BEGIN + 10 * MS, rate(60)), begin + 3 * MS_GPU);
        assert_eq!(bucket.impose(BEGIN + 20 * MS, rate(60)), begin + 9 * MS_GPU);
        // Lowered: nobody's lease holds it up.
        assert_eq!(
            bucket.impose(BEGIN + 30 * MS, rate(10)),
            begin + 10 * MS_GPU
        );
        assert_eq!(
            bucket.impose(BEGIN + 40 * MS, rate(10)),
            begin + 11 * MS_GPU
        );
        assert_eq!(bucket.rate(), Some(rate(10)));
    }

    #[test]
    fn the_whole_device_is_a_rate_where_it_is_imposed() {
        let bucket = Bucket::default();
        let whole = Rate::up_to_whole(2_000_000);
        assert!(whole.is_whole() && Rate::up_to_whole(999_999).is_whole());
        assert!(!Rate::up_to_whole(999_998).is_whole());
        assert_eq!(Rate::up_to_whole(0).ppm(), 1);
        bucket.impose(BEGIN, whole);
        bucket.charge(100 * MS_GPU);
        let begin = bucket.level();
        assert_eq!(bucket.impose(BEGIN + 10 * MS, whole), begin + 10 * MS_GPU);
        assert_eq!(bucket.rate(), Some(whole));
        bucket.lift(1);
        assert_eq!(bucket.level(), 1);
        bucket.lift(0);
        assert_eq!(bucket.level(), 1);
    }

    /// Each process enforces its own rate on what the whole group uses.
    #[test]
    fn a_slower_process_stands_back_while_the_group_is_above_its_rate() {
        let (bucket, slow) = (Bucket::default(), OwnShare::new());
        let mut now = BEGIN;
        let (mut admitted, mut used) = (0, 0);
        for _ in 0..1000 {
            now += MS;
            bucket.refill(now, rate(60));
            // The fast one uses 20 %, then 50 %, of the time.
            let other = if now < BEGIN + 500 * MS { 20 } else { 50 };
            bucket.charge(rate(other).earned(MS));
            bucket.refill(now, rate(30));
            if slow.refill(&bucket, now, rate(30)) > 0 {
                bucket.charge(MS_GPU);
                used += MS_GPU;
                admitted += i32::from(now >= BEGIN + 500 * MS);
            }
        }
        // 10 % is left for it in the first half, and nothing in the second but what it had saved.
        let first = rate(10).earned(500 * MS);
        assert!((used - first).abs() < 4 * MS_GPU, "{used} of {first}");
        assert!(admitted <= 2, "{admitted}");
        // What it waits for then is never more than 100 ms.
        let debt = slow.refill(&bucket, now, rate(30));
        assert!(rate(30).time_for(-debt) <= RATE_LEASE, "{debt}");
    }

    #[test]
    fn alone_or_fastest_only_the_bucket_counts() {
        let (bucket, own) = (Bucket::default(), OwnShare::new());
        bucket.refill(BEGIN, rate(30));
        bucket.charge(500 * MS_GPU);
        assert!(own.refill(&bucket, BEGIN, rate(30)) > 0);
        assert_eq!(own.refill(&bucket, BEGIN + MS, rate(30)), i64::MAX);
    }

    #[test]
    fn a_damaged_stamp_or_lease_does_not_last() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(30));
        bucket.refilled_at.store(u64::MAX, Relaxed);
        bucket.rate_until.store(u64::MAX, Relaxed);
        bucket.rate.store(999_999, Relaxed);
        bucket.level.store(i64::MAX, Relaxed);
        bucket.refill(BEGIN + MS, rate(30));
        bucket.refill(BEGIN + 2 * MS, rate(30));
        assert!(bucket.level() <= 300 * MS_GPU, "{}", bucket.level());
        bucket.level.store(0, Relaxed);
        let level = bucket.level();
        assert_eq!(bucket.rate(), Some(rate(30)));
        assert_eq!(bucket.refill(BEGIN + 12 * MS, rate(30)), level + 3 * MS_GPU);
    }

    #[test]
    fn threads_that_take_at_once_take_each_nanosecond_once() {
        let bucket = Bucket::default();
        bucket.refill(BEGIN, rate(50));
        bucket.give_back(1_000_000);
        let begin = bucket.level();
        let taken: i64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0;
                        while let Taken::Granted(amount) = bucket.take(1, 7, 100) {
                            sum += amount;
                        }
                        sum
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(begin - bucket.level(), taken);
        assert!((-4 * 7..=0).contains(&bucket.level()));
    }
}
