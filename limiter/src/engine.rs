//! The way of a launch.
//!
//! Almost always ([`Engine::spend`]) a thread pays for a launch out of what it has: it reads one word
//! that is hardly ever written, its own memory, and one line of the cost table. Everything else is the
//! refill ([`Engine::refill`]): the clock, the bucket, waiting, events.

use cuda_headers::driver::CUresult;
use quota_abi::bucket::Bucket;
use quota_abi::layout::DEVICES;
use quota_abi::sync::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use crate::costs::Costs;
use crate::device::Device;
use crate::gate::{Held, Place, Room};
use crate::gpu::Gpu;
use crate::markers::Markers;
use crate::shape::{Stream, Work};
use crate::terms::{Account, Doing};
use crate::thread::{NEVER, Thread};

/// A span is closed when it holds this much work, ns: event pairs resolve 0.5 µs and jitter by tens.
const SPAN: i64 = 1_000_000;
/// A launch this long has a span of its own.
const LONG: i64 = 250_000;
/// A launch this short does not count by itself: a span may begin behind it.
const SHORT: i64 = 200_000;
/// A span that has been open for so long is closed at the next refill, ns.
const SPAN_AGE: u64 = 2_000_000;
/// Unused batches are given back when other threads have gone on for so long, ns.
const BATCH_LIFE: u64 = 10_000_000;

/// What was used no longer ago, ns, is in use.
const LATELY: u64 = 1_000_000_000;

/// The daemon is not told more often that something has begun, ns.
const RINGING: u64 = 5_000_000;

/// The epoch of a process that has not looked for limits. Zero, like everything else here, so that the engine
/// takes no space in the library.
pub const UNKNOWN: u64 = 0;
/// The epoch of a process in which no device has a limit.
pub const UNLIMITED: u64 = 1;

/// What all launches read and hardly anybody writes.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    /// [`UNKNOWN`], [`UNLIMITED`], or a number that changes whenever what threads remember may be wrong.
    epoch: AtomicU64,
    /// Captures that run in this process.
    captures: AtomicU32,
    /// The daemon's count of changed limits and modes; null without a daemon.
    changes: AtomicPtr<AtomicU64>,
    /// What it was when the limits were last looked at.
    seen: AtomicU64,
}

/// GPU time of one process.
#[derive(Debug)]
pub struct Engine {
    hot: Hot,
    /// When the daemon was last told that something has begun.
    rung_at: AtomicU64,
    epoch_at: AtomicU64,
    /// The highest epoch there ever was, here or in the process that this one was forked from.
    last_epoch: AtomicU64,
    /// What work of each shape costs.
    pub costs: Costs,
    pub(crate) markers: Markers,
    pub(crate) devices: [Device; DEVICES],
}

/// What the refill found for one launch.
#[derive(Clone, Copy, Debug)]
struct Paid {
    price: i64,
    after: After,
}

/// What follows a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// It has a span of its own, which ends.
    Close,
    /// A span on the device of this index begins.
    Open(usize),
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// One without limits, which takes no space in the library: all zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            hot: Hot {
                epoch: AtomicU64::new(0),
                captures: AtomicU32::new(0),
                changes: AtomicPtr::new(core::ptr::null_mut()),
                seen: AtomicU64::new(0),
            },
            rung_at: AtomicU64::new(0),
            epoch_at: AtomicU64::new(0),
            last_epoch: AtomicU64::new(0),
            costs: Costs::new(),
            markers: Markers::new(),
            devices: [const { Device::new() }; DEVICES],
        }
    }

    /// See [`Hot::epoch`].
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.hot.epoch.load(Relaxed)
    }

    /// What threads remember may be wrong from now on.
    pub fn next_epoch(&self) {
        let _ = self.hot.epoch.fetch_update(Relaxed, Relaxed, |epoch| {
            (epoch > UNLIMITED).then_some(epoch + 1)
        });
    }

    /// The devices, in the order of the region.
    pub fn device(&self, index: usize) -> Option<&Device> {
        self.devices.get(index)
    }

    /// Takes note of limits that were set or lifted.
    pub fn limits_changed(&self) {
        let limited = self.devices.iter().any(Device::is_limited);
        let last = self.epoch().max(self.last_epoch.load(Relaxed));
        let epoch = last.max(UNLIMITED) + 1;
        self.last_epoch.store(epoch, Relaxed);
        let epoch = if limited { epoch } else { UNLIMITED };
        self.hot.epoch.store(epoch, Relaxed);
    }

    /// Looks at the limits again whenever a daemon's count has changed.
    pub fn watch(&self, changes: Option<&'static AtomicU64>) {
        let changes = changes.map_or(core::ptr::null_mut(), |word| {
            core::ptr::from_ref(word).cast_mut()
        });
        self.hot.changes.store(changes, Relaxed);
        self.take_news();
    }

    /// Whether a daemon has set or lifted limits since they were last looked at.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.changes()
            .is_some_and(|changes| changes.load(Relaxed) != self.hot.seen.load(Relaxed))
    }

    #[inline]
    fn changes(&self) -> Option<&'static AtomicU64> {
        // SAFETY: null, or what `watch` stored, which is a `&'static AtomicU64`.
        unsafe { self.hot.changes.load(Relaxed).as_ref() }
    }

    /// Looks at the limits again.
    #[cold]
    pub fn take_news(&self) {
        if let Some(changes) = self.changes() {
            // SYNC POINT with the daemon, which counts a change after it has made it.
            self.hot.seen.store(changes.load(Acquire), Relaxed);
        }
        self.limits_changed();
    }

    /// Wakes the daemon if it does not know that the container is active on a device: now and then, as it may be away.
    pub(crate) fn ring(&self, gpu: &impl Gpu, account: Account, now: u64) {
        let Some(bell) = account.terms.bell(now) else {
            return;
        };
        let last = self.rung_at.load(Relaxed);
        if now >= last.saturating_add(RINGING)
            && self
                .rung_at
                .compare_exchange(last, now, Relaxed, Relaxed)
                .is_ok()
        {
            gpu.ring(bell);
        }
    }

    /// A capture began (`+1`) or ended (`-1`).
    pub fn capture(&self, began: bool) {
        let _ = self.hot.captures.fetch_update(Relaxed, Relaxed, |count| {
            Some(if began {
                count + 1
            } else {
                count.saturating_sub(1)
            })
        });
        self.next_epoch();
    }

    /// Whether any capture runs.
    pub(crate) fn is_capturing(&self) -> bool {
        self.hot.captures.load(Relaxed) > 0
    }

    /// Launches work of this shape on `stream` by `launch`, if the thread can pay for it out of what it has. `None`: it has to
    /// [refill](Self::refill). Called only with a limit somewhere.
    #[inline]
    pub fn spend(
        &self,
        thread: &Thread,
        shape: u64,
        stream: Stream,
        launch: &impl Fn() -> CUresult,
    ) -> Option<CUresult> {
        if thread.epoch.get() != self.epoch() {
            return None;
        }
        let price = self.costs.price(shape)?;
        let key = stream.key();
        let span = thread.span(key);
        let batch = thread.batch.get() - price;
        let (left, out) = thread.left.get().overflowing_sub(1);
        if batch < 0 || out || span.stream.get() != key {
            return None;
        }
        thread.batch.set(batch);
        thread.left.set(left);
        span.add(shape, price);
        let answer = launch();
        if answer != CUresult::CUDA_SUCCESS {
            thread.unspend(span, price);
        }
        Some(answer)
    }

    /// The other way of a launch: takes more, waits until there is some, and measures.
    #[cold]
    #[inline(never)]
    pub fn refill(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        work: &Work,
        launch: &impl Fn() -> CUresult,
    ) -> CUresult {
        if thread.free.get() && thread.seen.get() == self.epoch() && !self.has_news() {
            return launch();
        }
        let Some(paid) = gpu.quietly(|| self.pay(gpu, thread, work)) else {
            return launch();
        };
        let answer = launch();
        let span = thread.span(work.stream.key());
        match paid.after {
            After::Nothing if answer == CUresult::CUDA_SUCCESS => {}
            After::Nothing => thread.unspend(span, paid.price),
            After::Open(index) if answer == CUresult::CUDA_SUCCESS => {
                gpu.quietly(|| self.open(gpu, thread, span, index, work));
            }
            After::Open(_) => thread.pay_back(paid.price),
            After::Close if answer == CUresult::CUDA_SUCCESS => {
                gpu.quietly(|| self.close(gpu, span));
            }
            After::Close => {
                thread.unspend(span, paid.price);
                self.abandon(span);
            }
        }
        thread.leave(gpu.now(), paid.price);
        answer
    }

    /// A fill or a copy within the device, by `call`: charged by what its bytes take at the memory's bandwidth. It is not
    /// measured, and a span on its stream ends before it.
    pub fn transfer(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        stream: Stream,
        traffic: u64,
        call: &impl Fn() -> CUresult,
    ) -> CUresult {
        let price = gpu.quietly(|| {
            let (place, _) = self.arrive(gpu, thread, stream)?;
            let span = thread.span(stream.key());
            if span.is_open() && span.stream.get() == stream.key() {
                self.close(gpu, span);
                span.stream.set(0);
            }
            let price = place.device.transfer_time(traffic);
            if thread.batch.get() < price || thread.left.get() == 0 {
                self.take(gpu, thread, place, Held::transfer(stream), price);
            }
            thread.pay(price);
            Some(price)
        });
        let answer = call();
        if let Some(price) = price
            && answer != CUresult::CUDA_SUCCESS
        {
            thread.pay_back(price);
        }
        answer
    }

    /// The beginning of a refill: where the thread is, and what has ended there. `None`: the call is not for us to count.
    fn arrive(&self, gpu: &impl Gpu, thread: &Thread, stream: Stream) -> Option<(Place<'_>, u64)> {
        if self.is_capturing() && gpu.captures(stream) {
            return None;
        }
        if self.has_news() {
            self.take_news();
        }
        let epoch = self.epoch();
        if thread.seen.get() != epoch {
            self.look_up(gpu, thread, epoch);
        }
        if thread.free.get() {
            return None;
        }
        let index = thread.device.get().checked_sub(1)?;
        let device = self.device(index)?;
        let now = gpu.now();
        let account = device.account(now)?;
        account.terms.say(Doing::Works);
        self.ring(gpu, account, now);
        device.look_around(account, now);
        self.flush(thread, account.bucket, now);
        let place = Place {
            index,
            device,
            account,
        };
        self.settle(gpu, place, now);
        Some((place, now))
    }

    /// Everything before the launch. `None`: it is not for us to count.
    fn pay(&self, gpu: &impl Gpu, thread: &Thread, work: &Work) -> Option<Paid> {
        let capturing = self.is_capturing();
        let (place, now) = self.arrive(gpu, thread, work.stream)?;
        let epoch = thread.seen.get();
        let Place { index, device, .. } = place;
        let key = work.stream.key();
        let span = thread.span(key);
        if span.stream.get() != key {
            self.close_elsewhere(gpu, span);
            span.assign(work.stream);
        }
        let cost = self.costs.find_or_guess(work, || place.typical(work));
        let price = self.price(place, work, cost, now);
        let mut joined = self.stays_joined(span, work, cost);
        let ahead = thread.is_ahead(now);

        if span.is_open() {
            let full = span.estimate.get() >= SPAN || self.age(span, now) >= SPAN_AGE;
            if !joined && (full || !ahead || cost.is_singular() || price >= LONG) {
                self.close(gpu, span);
            } else if let Some(marker) = self.markers.get(span.marker.get()) {
                marker.mark(now, span.estimate.get());
            }
        }
        let mut waited = false;
        if thread.batch.get() < price || thread.left.get() == 0 {
            waited |= self.take(gpu, thread, place, Held::work(work), price);
        }
        match self.bound_flight(gpu, thread, place, Held::work(work), price) {
            Room::Was => {}
            Room::None => waited = true,
            Room::Came => {
                waited = true;
                self.regain_turn(gpu, thread, place, Held::work(work), price);
            }
        }
        if waited {
            self.let_go(index, key, now, gpu.now());
        }
        // Nothing is left to be joined to after a wait.
        joined &= !waited;

        if span.stream.get() != key {
            span.assign(work.stream);
        }
        thread.epoch.set(if capturing { NEVER } else { epoch });
        if waited
            && !joined
            && !cost.is_singular()
            && price <= SHORT
            && thread.spans_closed.get() <= 1
            && self.markers.all_free()
            && device.is_sure()
            && !self.is_elsewhere_too(index, now)
        {
            // While this process had nothing to do another one got the GPU, and the first launch has to wait
            // for the end of its slice. So that this does not look like work, the span begins behind it. Not where
            // several streams are in use: what runs side by side is charged once only as far as it is measured. Nor where several devices
            // are: what the launch waits for may be work on another one that is held.
            thread.pay(price);
            return Some(Paid {
                price,
                after: After::Open(index),
            });
        }
        let opened = !span.is_open() && !joined && self.open(gpu, thread, span, index, work);
        if opened
            && !ahead
            && device.flight.is_empty()
            && let Some(marker) = self.markers.get(span.marker.get())
        {
            marker.found_idle();
        }
        thread.spend(span, work.shape, price);
        if cost.is_young() {
            span.add_young(work, price);
        }
        let alone = opened
            && span.joins.get() == 0
            && (cost.is_singular() || price >= LONG || !ahead || thread.die() == 0);
        let after = if alone { After::Close } else { After::Nothing };
        Some(Paid { price, after })
    }

    /// Whether the container has used another device lately.
    fn is_elsewhere_too(&self, index: usize, now: u64) -> bool {
        let others = self.devices.iter().enumerate();
        others
            .filter(|(other, _)| *other != index)
            .filter_map(|(_, device)| device.terms())
            .any(|terms| terms.bucket.refilled_at().saturating_add(LATELY) > now)
    }

    /// Asks for context and device again, and gives back what was taken for the ones before.
    fn look_up(&self, gpu: &impl Gpu, thread: &Thread, epoch: u64) {
        if let Some(bucket) = self.bucket_of(thread) {
            bucket.give_back(thread.batch.get());
            bucket.rebook(-thread.batch.get());
            bucket.count_launches(u64::from(thread.count()));
        }
        thread.drop_batch();
        let current = gpu.current();
        let limited =
            current.filter(|(_, index)| self.device(*index).is_some_and(Device::is_limited));
        // Without a context the driver has its own answer, and there may be one by the next launch.
        thread
            .seen
            .set(if current.is_some() { epoch } else { NEVER });
        thread.free.set(limited.is_none());
        thread.epoch.set(NEVER);
        if let Some((context, index)) = limited {
            if (thread.context.get(), thread.device.get()) != (context.0, index + 1) {
                for span in &thread.spans {
                    self.abandon(span);
                    span.stream.set(0);
                }
            }
            thread.context.set(context.0);
            thread.device.set(index + 1);
        }
    }

    fn bucket_of(&self, thread: &Thread) -> Option<&'static Bucket> {
        let device = self.device(thread.device.get().checked_sub(1)?)?;
        Some(device.terms()?.bucket)
    }

    /// Counts what was launched since the last refill, and lets batches of other threads expire.
    fn flush(&self, thread: &Thread, bucket: &Bucket, now: u64) {
        bucket.count_launches(u64::from(thread.count()));
        let last = self.epoch_at.load(Relaxed);
        if now >= last.saturating_add(BATCH_LIFE)
            && self
                .epoch_at
                .compare_exchange(last, now, Relaxed, Relaxed)
                .is_ok()
        {
            self.next_epoch();
        }
    }

    /// This thread has left a hook by `longjmp`, and perhaps what it alone had.
    pub fn hook_was_left(&self) {
        for device in &self.devices {
            device.settler.release_if_left();
        }
    }

    /// Forgets everything in a forked child: limits, markers, captures and work are its parent's.
    pub fn reset(&self) {
        let epoch = self.hot.epoch.swap(UNKNOWN, Relaxed);
        self.last_epoch.fetch_max(epoch, Relaxed);
        self.hot.changes.store(core::ptr::null_mut(), Relaxed);
        self.rung_at.store(0, Relaxed);
        self.hot.captures.store(0, Relaxed);
        self.markers.reset();
        for device in &self.devices {
            device.reset();
        }
    }
}
