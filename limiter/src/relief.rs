//! Launches that are let through because work in flight seems to wait for them.
//!
//! A kernel may spin until another one has run that is launched later: on another stream, on another device, or by a thread
//! that first needs what the held thread has. All that can be seen of it is that it runs far longer than it ever
//! did. Every moment for which the launch is held then lengthens the spinning, which counts as work like any
//! other; so it is let through, on credit.
//!
//! That costs little even where nothing waits for anything: what counts is the time in which the GPU is busy, and it is
//! busy with the overdue work all the same. The credit is small, and whoever has used it up waits as ever.

use quota_abi::sync::Ordering::Relaxed;

use crate::engine::Engine;
use crate::flight::PATIENCE;
use crate::gate::{Held, LONGEST_BEHIND, LONGEST_ROW, LONGEST_WAIT, Place};
use crate::marker::Marker;

/// Work is overdue when it runs for twice its estimate, and this much longer, ns: another process's slice.
const SLACK: u64 = 1_000_000;
/// Settled debt up to which launches are let through, ns of GPU time.
const CREDIT: i64 = 10_000_000;
/// For how long the first launch is still held once work is overdue, ns. The next one longer, until something
/// has ended: what does not end may also be a row of kernels that are longer than they were.
const FIRST: u64 = 500_000;
/// How soon after a held launch was let go the work ends that had waited for it, ns.
const SOON: i64 = 2_000_000;

impl Marker {
    /// It is the first on its stream that the GPU has not passed.
    pub(crate) fn is_head(&self, now: u64) {
        if self.head.load(Relaxed) == 0 {
            self.head.store(now, Relaxed);
        }
    }

    /// When it will have run too long; `None` while something else may be ahead of it.
    fn overdue_at(&self) -> Option<u64> {
        let head = Some(self.head.load(Relaxed)).filter(|head| *head != 0)?;
        let estimate = self.estimate.load(Relaxed).max(0).unsigned_abs();
        Some(
            head.saturating_add(estimate.saturating_mul(2))
                .saturating_add(SLACK),
        )
    }

    /// What one launch in it has taken at least, by the host's clock; `None` while something else may be ahead of it.
    pub(crate) fn at_least(&self, now: u64) -> Option<u64> {
        let head = Some(self.head.load(Relaxed)).filter(|head| *head != 0)?;
        Some(now.saturating_sub(head) / u64::from(self.launches.load(Relaxed).max(1)))
    }

    /// Whether it had run too long when the launch was let go that it can have waited for.
    pub(crate) fn was_overdue(&self) -> bool {
        self.overdue.load(Relaxed) != 0
    }

    /// For how long launches were held during the span, if that is what it waited for: if it ended, by the host's
    /// clock, just when the last one had been let go.
    pub(crate) fn held_until(&self, ended: i64) -> i64 {
        let let_go = i64::try_from(self.let_go.load(Relaxed)).unwrap_or(i64::MAX);
        let after = ended.saturating_sub(let_go);
        if let_go != 0 && (-SOON / 10..SOON).contains(&after) {
            self.held.load(Relaxed)
        } else {
            0
        }
    }
}

impl Engine {
    /// When a launch on `stream` that is held since `begin` has to be let through because of what is overdue.
    /// `debt`: how long what was settled will take to be paid; `row`: for how long it is held behind work of its own shape on its own stream.
    pub(crate) fn relief(
        &self,
        place: Place<'_>,
        held: Held,
        debt: u64,
        row: u64,
        begin: u64,
    ) -> u64 {
        let fills_at = place.account.bucket.rate().unwrap_or(place.account.rate);
        if debt > fills_at.time_for(CREDIT + fills_at.resume()) {
            return u64::MAX;
        }
        let before = place.device.flight.relieved();
        let elsewhere = (FIRST << before.min(16)).min(PATIENCE);
        // What is ahead of the launch on its own stream cannot wait for it, but for what comes after it.
        let behind = (FIRST << before.saturating_mul(2).min(16)).min(LONGEST_WAIT);
        self.markers
            .all_pending()
            .filter_map(|(_, marker)| {
                let own = marker.device() == place.index && marker.stream() == held.stream;
                let patience = match own {
                    // A row of kernels that are longer than they were.
                    true if marker.shape.load(Relaxed) == held.shape => row,
                    true => behind,
                    false => elsewhere,
                };
                Some(marker.overdue_at()?.max(begin).saturating_add(patience))
            })
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Whether all that is in flight in this process is ahead of a launch on its own stream; and whether it is of the same shape too.
    pub(crate) fn is_behind(&self, index: usize, held: Held) -> (bool, bool) {
        let mut behind = self.markers.all_pending().map(|(_, marker)| {
            let own = marker.device() == index && marker.stream() == held.stream;
            (own, own && marker.shape.load(Relaxed) == held.shape)
        });
        behind
            .try_fold((true, true), |all, one| {
                one.0.then_some((true, all.1 && one.1))
            })
            .unwrap_or((false, false))
    }

    /// The longest wait of a launch while work of this process is in flight.
    pub(crate) fn longest_wait(&self, index: usize, held: Held) -> u64 {
        match self.is_behind(index, held) {
            (true, true) => LONGEST_ROW,
            (true, false) => LONGEST_BEHIND,
            (false, _) => LONGEST_WAIT,
        }
    }

    /// A launch on `stream` of device `index` goes on that was held since `begin`.
    pub(crate) fn let_go(&self, index: usize, stream: usize, begin: u64, now: u64) {
        for (_, marker) in self.markers.all_pending() {
            if marker.head.load(Relaxed) != 0 {
                let held = now.saturating_sub(begin.max(marker.opened()));
                let held = i64::try_from(held).unwrap_or(i64::MAX);
                marker.held.fetch_add(held, Relaxed);
                if marker.device() != index || marker.stream() != stream {
                    marker.let_go.store(now, Relaxed);
                    let overdue = marker.overdue_at().is_some_and(|at| at <= now);
                    marker.overdue.store(u32::from(overdue), Relaxed);
                }
            }
        }
    }
}
