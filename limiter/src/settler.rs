//! Turns events that the GPU has passed into charges.

use crate::device::OthersHad;
use crate::gpu::{Context, Event, Gpu};
use crate::marker::Marker;
use crate::union::Union;
use crate::verdict::{Evidence, POINTS};

/// A reference further back than this is replaced: the driver tells times in 24 bits of a float.
const REFERENCE_AGE: i64 = 500_000_000;
/// Distance between the times of two contexts, which have no common clock: they never overlap.
const FAR: i64 = 1_000_000_000;

/// One device's axis of GPU time, and what was charged on it.
#[derive(Debug)]
pub(crate) struct Settler {
    union: Union,
    reference: Option<(Context, Event)>,
    /// Where the reference lies on the axis.
    offset: i64,
    /// The furthest end seen.
    end: i64,
    /// How far the axis is ahead of the host's clock, ns: the least that was seen between the recording of an event and
    /// its passing, since the reference was last replaced. Nothing seen is all zeros, as everything is at first here: so
    /// the engine takes no room in the file.
    ahead: Option<i64>,
    /// The same since the context was last another one: of spans that never find their stream empty the other says little.
    steady: Option<i64>,
    /// Where the last look at the markers broke off, plus 1; 0: nowhere.
    broke_off: usize,
}

/// What a span tells of one launch, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Each {
    /// The least and the most that it took.
    pub(crate) range: (i64, i64),
    /// Its part of the whole span, whatever else was in that.
    pub(crate) whole: i64,
}

/// What a marker showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// To be charged for the span instead of its estimate.
    pub(crate) charge: i64,
    /// What it tells of one launch of the marker's shape.
    pub(crate) launch: Option<Each>,
    /// Whether it was overdue, and waited for a launch that this process held.
    pub(crate) waited: bool,
    /// Whether others had work on the device meanwhile.
    pub(crate) contended: bool,
    /// By how much it was longer than its estimate, or shorter; `None` where others had a part of it.
    pub(crate) missed_by: Option<i64>,
    /// When it ended, by the host's clock.
    pub(crate) ended: u64,
    /// When it began and ended, by the host's clock, others' part included.
    pub(crate) on_host: (u64, u64),
}

impl Settler {
    pub(crate) const fn new() -> Self {
        Self {
            union: Union::new(),
            reference: None,
            offset: 0,
            end: 0,
            ahead: None,
            steady: None,
            broke_off: 0,
        }
    }

    /// Where to begin looking at the markers: with the oldest, or where the last look broke off. As many streams as that looked
    /// at in vain may not go on for long, and the others must not wait for them.
    pub(crate) fn begin_at(&mut self, oldest: usize) -> usize {
        match self.broke_off {
            0 => oldest,
            place => {
                self.broke_off = 0;
                place - 1
            }
        }
    }

    /// The look at the markers breaks off behind this one.
    pub(crate) fn break_off_at(&mut self, index: Option<usize>) {
        self.broke_off = index.map_or(0, |index| index + 2);
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// A context is about to go: its event cannot be the reference any more. Returns it.
    pub(crate) fn drop_context(&mut self, context: Option<Context>) -> Option<Event> {
        let (owner, event) = self.reference?;
        if context.is_some_and(|one| one != owner) {
            return None;
        }
        self.reference = None;
        Some(event)
    }

    /// Judges a marker that the GPU has passed; `others_had` tells what others had of the device until it ended, by the host's
    /// clock. `None` if the driver does not tell its times.
    pub(crate) fn settle(
        &mut self,
        gpu: &impl Gpu,
        marker: &Marker,
        others_had: impl FnOnce(i64) -> OthersHad,
    ) -> Option<Settled> {
        let measured = gpu.elapsed(marker.begin()?, marker.end()?)?.max(0);
        let begin = self.place(gpu, marker)?;
        self.end = self.end.max(begin + measured);
        let recorded = i64::try_from(marker.opened()).unwrap_or(i64::MAX);
        let ahead = begin.saturating_sub(recorded);
        let steady = self.steady.map_or(ahead, |least| least.min(ahead));
        self.steady = Some(steady);
        let ahead = self.ahead.map_or(ahead, |least| least.min(ahead));
        self.ahead = Some(ahead);
        let ended = begin.saturating_add(measured).saturating_sub(ahead);
        let held = marker.held_until(ended);
        let fresh = self.union.add(begin, begin + measured);
        let (theirs, contended) = match others_had(ended) {
            OthersHad::Part(theirs) => (theirs.min(measured), false),
            OthersHad::Unknown => (0, true),
        };
        let host = |axis: i64| axis.saturating_sub(steady).max(0).unsigned_abs();
        let on_host = (host(begin), host(begin.saturating_add(measured)));
        let (measured, fresh) = (measured - theirs, (fresh - theirs).max(0));

        let mut points = [(0, 0); POINTS];
        let count = marker.points(&mut points);
        let evidence = Evidence {
            estimate: marker.estimate.load(quota_abi::sync::Ordering::Relaxed),
            measured,
            points: points.get(..count).unwrap_or_default(),
            closed: marker.closed(),
            idle: marker.was_idle(),
        };
        let alone = marker.launches.load(quota_abi::sync::Ordering::Relaxed) == 1;
        Some(Settled {
            charge: if contended {
                evidence.charge_in_contention(fresh)
            } else {
                evidence.charge(fresh)
            },
            // How much of it was others' is known by and large: no measure of many short launches, nor where hardly anything is left.
            launch: per_launch(marker, &evidence, held)
                .filter(|_| theirs == 0 || alone && measured >= evidence.estimate / 2),
            waited: held > 0 && marker.was_overdue(),
            contended,
            missed_by: (!contended && theirs == 0)
                .then(|| measured.saturating_sub(evidence.estimate)),
            ended: ended.max(0).unsigned_abs(),
            on_host,
        })
    }

    /// Where a marker begins on the axis.
    fn place(&mut self, gpu: &impl Gpu, marker: &Marker) -> Option<i64> {
        let context = marker.context();
        let known = self
            .reference
            .filter(|(owner, _)| *owner == context)
            .and_then(|(_, event)| Some((event, gpu.elapsed(event, marker.begin()?)?)));
        if let Some((event, distance)) = known {
            let begin = self.offset + distance;
            if distance > REFERENCE_AGE {
                let newer = marker.swap_begin(Some(event))?;
                self.reference = Some((context, newer));
                self.offset = begin;
                // The two clocks drift, by less than this.
                self.steady = self.steady.map(|ahead| ahead + distance / 10_000);
                self.ahead = None;
            }
            return Some(begin);
        }
        if let Some((_, stale)) = self.reference.take() {
            gpu.destroy(stale);
        }
        self.reference = Some((context, marker.swap_begin(None)?));
        self.offset = self.end + FAR;
        self.ahead = None;
        self.steady = None;
        Some(self.offset)
    }
}

/// What a span tells of one launch of the shape that it is about. With other shapes in it, these count as
/// rightly estimated. `held`: for how long it waited for a launch that this process held.
fn per_launch(marker: &Marker, evidence: &Evidence<'_>, held: i64) -> Option<Each> {
    use quota_abi::sync::Ordering::Relaxed;
    let launches = i64::from(marker.shape_launches.load(Relaxed));
    if launches == 0 || marker.shape.load(Relaxed) == 0 {
        return None;
    }
    let others = evidence.estimate - marker.shape_estimate.load(Relaxed);
    let share = |whole: i64| (whole - held - others).max(0) / launches;
    Some(Each {
        range: (share(evidence.least()), share(evidence.most())),
        whole: share(evidence.measured),
    })
}
