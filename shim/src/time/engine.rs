//! The way of a launch.
//!
//! Almost always ([`Engine::submit`]'s first branch) a thread pays for a launch out of what it has: it reads one word
//! that is hardly ever written, its own memory, and one line of the cost table. Everything else is the
//! refill ([`Engine::refill`]): the clock, the bucket, waiting, events.

use cuda_headers::driver::CUresult;
use quota_abi::layout::DEVICES;
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::costs::{Cost, Costs};
use super::device::{Account, Admission, Device};
use super::flight::{BOUND, PATIENCE};
use super::gpu::{Context, Gpu, Passed};
use super::markers::{Handle, Markers};
use super::shape::{Stream, Work};
use super::thread::{NEVER, Span, Thread};

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
/// The longest wait of one launch, ns, unless the debt that it found asks for more.
const LONGEST_WAIT: u64 = 100_000_000;
/// Markers that are looked at in vain before a settler leaves the rest for later.
const UNPASSED: u32 = 6;
/// The shortest sleep of the bound on work in flight, ns; each further one is twice as long.
const FIRST_NAP: u64 = 200_000;
/// Joined launches of unknown cost that go unmeasured, before one is measured all the same.
const JOINS: u32 = 64;

/// The epoch of a process that has not looked for limits. Zero, like everything else here, so that the engine
/// takes no space in the library.
pub(super) const UNKNOWN: u64 = 0;
/// The epoch of a process in which no device has a limit.
pub(super) const UNLIMITED: u64 = 1;

/// What all launches read and hardly anybody writes.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    /// [`UNKNOWN`], [`UNLIMITED`], or a number that changes whenever what threads remember may be wrong.
    epoch: AtomicU64,
    /// Captures that run in this process.
    captures: AtomicU32,
}

/// GPU time of one process.
#[derive(Debug)]
pub(super) struct Engine {
    hot: Hot,
    epoch_at: AtomicU64,
    /// The highest epoch there ever was, here or in the process that this one was forked from.
    last_epoch: AtomicU64,
    pub(super) costs: Costs,
    markers: Markers,
    devices: [Device; DEVICES],
}

/// Where a launch runs.
#[derive(Clone, Copy)]
struct Place<'a> {
    index: usize,
    device: &'a Device,
    account: Account,
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

impl Engine {
    pub(super) const fn new() -> Self {
        Self {
            hot: Hot {
                epoch: AtomicU64::new(0),
                captures: AtomicU32::new(0),
            },
            epoch_at: AtomicU64::new(0),
            last_epoch: AtomicU64::new(0),
            costs: Costs::new(),
            markers: Markers::new(),
            devices: [const { Device::new() }; DEVICES],
        }
    }

    /// See [`Hot::epoch`].
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.hot.epoch.load(Relaxed)
    }

    /// What threads remember may be wrong from now on.
    pub(super) fn next_epoch(&self) {
        let _ = self.hot.epoch.fetch_update(Relaxed, Relaxed, |epoch| {
            (epoch > UNLIMITED).then_some(epoch + 1)
        });
    }

    /// The devices, in the order of the region.
    pub(super) fn device(&self, index: usize) -> Option<&Device> {
        self.devices.get(index)
    }

    /// Takes note of limits that were set or lifted.
    pub(super) fn limits_changed(&self) {
        let limited = self.devices.iter().any(|device| device.account().is_some());
        let last = self.epoch().max(self.last_epoch.load(Relaxed));
        let epoch = last.max(UNLIMITED) + 1;
        self.last_epoch.store(epoch, Relaxed);
        let epoch = if limited { epoch } else { UNLIMITED };
        self.hot.epoch.store(epoch, Relaxed);
    }

    /// A capture began (`+1`) or ended (`-1`).
    pub(super) fn capture(&self, began: bool) {
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
    pub(super) fn is_capturing(&self) -> bool {
        self.hot.captures.load(Relaxed) > 0
    }

    /// Launches `work` by `launch`, when there is time for it. Called only with a limit somewhere.
    #[inline]
    pub(super) fn submit(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        work: &Work,
        launch: &impl Fn() -> CUresult,
    ) -> CUresult {
        if thread.epoch.get() == self.epoch()
            && let Some(cost) = self.costs.find(work.shape)
        {
            let key = work.stream.key();
            let span = thread.span(key);
            if thread.batch.get() >= cost.ns && thread.left.get() > 0 && span.stream.get() == key {
                thread.spend(span, work.shape, cost.ns);
                let answer = launch();
                if answer != CUresult::CUDA_SUCCESS {
                    thread.unspend(span, cost.ns);
                }
                return answer;
            }
        }
        self.refill(gpu, thread, work, launch)
    }

    /// The other way of a launch.
    #[cold]
    #[inline(never)]
    fn refill(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        work: &Work,
        launch: &impl Fn() -> CUresult,
    ) -> CUresult {
        let Some(paid) = gpu.quietly(|| self.pay(gpu, thread, work)) else {
            return launch();
        };
        let answer = launch();
        let span = thread.span(work.stream.key());
        if answer != CUresult::CUDA_SUCCESS {
            thread.unspend(span, paid.price);
            if paid.after == After::Close {
                self.abandon(span);
            }
        } else {
            match paid.after {
                After::Nothing => {}
                After::Open(index) => {
                    gpu.quietly(|| self.open(gpu, thread, span, index, work));
                }
                After::Close => gpu.quietly(|| self.close(gpu, span)),
            }
        }
        thread.leave(gpu.now(), paid.price);
        answer
    }

    /// Everything before the launch. `None`: it is not for us to count.
    fn pay(&self, gpu: &impl Gpu, thread: &Thread, work: &Work) -> Option<Paid> {
        let epoch = self.epoch();
        let capturing = self.is_capturing();
        if capturing && gpu.captures(work.stream) {
            return None;
        }
        if thread.seen.get() != epoch {
            self.look_up(gpu, thread, epoch);
        }
        if thread.free.get() {
            return None;
        }
        let index = thread.device.get().checked_sub(1)?;
        let device = self.device(index)?;
        let account = device.account()?;
        let now = gpu.now();
        self.flush(thread, account, now);
        let place = Place {
            index,
            device,
            account,
        };
        self.settle(gpu, place, now);

        let key = work.stream.key();
        let span = thread.span(key);
        if span.stream.get() != key {
            self.close_elsewhere(gpu, span);
            span.assign(work.stream);
        }
        let cost = self.costs.find_or_guess(work);
        let price = self.price(place, work, cost, now);
        let mut joined = self.stays_joined(span, work, cost);
        let ahead = thread.is_ahead(now);

        if span.is_open() {
            let full = span.estimate.get() >= SPAN || self.age(span, now) >= SPAN_AGE;
            if !joined && (full || !ahead || cost.is_young() || price >= LONG) {
                self.close(gpu, span);
            } else if let Some(marker) = self.markers.get(span.marker.get()) {
                marker.mark(now, span.estimate.get());
            }
        }
        let mut waited = false;
        if thread.batch.get() < price || thread.left.get() == 0 {
            waited |= self.take(gpu, thread, place, key, price);
        }
        waited |= self.bound_flight(gpu, thread, place, key, price);
        // Nothing is left to be joined to after a wait.
        joined &= !waited;

        if span.stream.get() != key {
            span.assign(work.stream);
        }
        thread.epoch.set(if capturing { NEVER } else { epoch });
        if waited
            && !joined
            && !cost.is_young()
            && price <= SHORT
            && thread.spans_closed.get() <= 1
            && self.markers.all_free()
        {
            // While this process had nothing to do another one got the GPU, and the first launch has to wait
            // for the end of its slice. So that this does not look like work, the span begins behind it. Not where
            // several streams are in use: what runs side by side is charged once only as far as it is measured.
            thread.spend(span, work.shape, price);
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
            && (cost.is_young() || price >= LONG || !ahead || thread.die() == 0);
        let after = if alone { After::Close } else { After::Nothing };
        Some(Paid { price, after })
    }

    /// Asks for context and device again, and gives back what was taken for the ones before.
    fn look_up(&self, gpu: &impl Gpu, thread: &Thread, epoch: u64) {
        if let Some(account) = self.account_of(thread) {
            account.bucket.give_back(thread.batch.get());
            account.bucket.count_launches(u64::from(thread.count()));
        }
        thread.drop_batch();
        let current = gpu.current();
        let limited = current.filter(|(_, index)| {
            self.device(*index)
                .is_some_and(|device| device.account().is_some())
        });
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

    fn account_of(&self, thread: &Thread) -> Option<Account> {
        self.device(thread.device.get().checked_sub(1)?)?.account()
    }

    /// Counts what was launched since the last refill, and lets batches of other threads expire.
    fn flush(&self, thread: &Thread, account: Account, now: u64) {
        account.bucket.count_launches(u64::from(thread.count()));
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

    /// What a launch is charged: its cost; more if work of the same shape has been running for longer.
    fn price(&self, place: Place<'_>, work: &Work, cost: Cost, now: u64) -> i64 {
        if !place.device.flight.is_off() {
            return cost.ns;
        }
        // The estimate of something that does not end is wrong. By how much is not known, and work that
        // waits for this launch may be what does not end: so no more than 100 ms of waiting.
        let overdue = self
            .markers
            .pending(place.index)
            .filter(|(_, marker)| marker.shape.load(Relaxed) == work.shape)
            .map(|(_, marker)| now.saturating_sub(marker.opened()))
            .max()
            .unwrap_or(0);
        let overdue = i64::try_from(overdue).unwrap_or(i64::MAX);
        cost.ns
            .max(overdue.min(place.account.rate.earned(LONGEST_WAIT)))
    }

    /// Whether no marker may come before a launch. A stream whose launches are all joined, and whose costs
    /// are not known, has to be interrupted once in a while.
    fn stays_joined(&self, span: &Span, work: &Work, cost: Cost) -> bool {
        if !work.joined {
            return false;
        }
        let joins = span.joins.get().saturating_add(1);
        span.joins.set(joins);
        if cost.is_young() && joins.is_multiple_of(JOINS) {
            span.joins.set(0);
            return false;
        }
        true
    }

    /// Takes GPU time for a launch; waits until there is some. True if it had to.
    fn take(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        stream: usize,
        price: i64,
    ) -> bool {
        let Place {
            device, account, ..
        } = place;
        let least = (price - thread.batch.get()).max(0);
        let most = least.max(thread.appetite(account.rate.batch()));
        let begin = gpu.now();
        let mut now = begin;
        let mut deadline = None;
        let mut early = 2;
        let granted = loop {
            let wait = match device.admit(account, least, most, deadline.is_some(), now) {
                Admission::Granted(amount) => break amount,
                Admission::Wait(wait) => wait,
            };
            let deadline = *deadline.get_or_insert_with(|| {
                self.close_all(gpu, thread, stream);
                begin.saturating_add(wait.max(LONGEST_WAIT))
            });
            if now >= deadline {
                account.bucket.charge(least);
                break least;
            }
            let mut until = now.saturating_add(wait).min(deadline);
            // What is in flight may turn out cheaper than it was charged: look again when it has ended.
            let flying = device.flight.remaining(now);
            if early > 0 && flying > 0 {
                early -= 1;
                until = until.min(now.saturating_add(flying.unsigned_abs()));
            }
            gpu.sleep_until(until, account.bucket.wake_word());
            now = gpu.now();
            self.settle(gpu, place, now);
        };
        thread.grant(granted);
        let Some(deadline) = deadline else {
            return false;
        };
        account.bucket.count_wait(now - begin, now >= deadline);
        true
    }

    /// Waits while too much is in flight, for a while. True if it had to.
    fn bound_flight(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        stream: usize,
        price: i64,
    ) -> bool {
        let flight = &place.device.flight;
        let begin = gpu.now();
        let mut excess = flight.excess(price, begin);
        if excess == 0 {
            return false;
        }
        self.close_all(gpu, thread, stream);
        let deadline = begin + PATIENCE;
        let (mut now, mut nap) = (begin, FIRST_NAP);
        while excess > 0 && now < deadline {
            let until = now + excess.min(BOUND).unsigned_abs().max(nap);
            gpu.sleep_until(until.min(deadline), place.account.bucket.wake_word());
            nap *= 2;
            now = gpu.now();
            self.settle(gpu, place, now);
            excess = flight.excess(price, now);
        }
        if excess > 0 {
            flight.turn_off();
        }
        place.account.bucket.count_wait(now - begin, excess > 0);
        true
    }

    /// Records the first event of a span. Without a free marker, or events, the span goes unmeasured.
    fn open(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        span: &Span,
        device: usize,
        work: &Work,
    ) -> bool {
        span.clear();
        let Some((handle, marker)) = self.markers.hold(work.stream, device) else {
            return false;
        };
        let context = Context(thread.context.get());
        let ready = self.equip(gpu, handle, context)
            && self.may_record(gpu, work.stream)
            && marker
                .begin()
                .is_some_and(|event| gpu.record(event, work.stream));
        if !ready || !self.markers.open(handle, gpu.now()) {
            self.markers.free(handle);
            return false;
        }
        span.marker.set(handle);
        span.first.set(Some(*work));
        true
    }

    /// Makes sure that a marker has two events of a context.
    fn equip(&self, gpu: &impl Gpu, handle: Handle, context: Context) -> bool {
        let Some(marker) = self.markers.get(handle) else {
            return false;
        };
        if marker.context() == context && marker.begin().is_some() && marker.end().is_some() {
            return true;
        }
        let foreign = marker.context() != context;
        let [begin, end] = marker.strip().map(|event| {
            event.filter(|event| {
                if foreign {
                    gpu.destroy(*event);
                }
                !foreign
            })
        });
        let (Some(begin), Some(end)) =
            (begin.or_else(|| gpu.create()), end.or_else(|| gpu.create()))
        else {
            return false;
        };
        marker.equip(context, begin, end);
        true
    }

    /// Records the last event of a span.
    fn close(&self, gpu: &impl Gpu, span: &Span) {
        let handle = span.marker.get();
        let stream = span.stream();
        let Some(marker) = self.markers.get(handle) else {
            return;
        };
        if self.markers.begin_closing(handle) {
            let now = gpu.now();
            let recorded = span.launches.get() > 0
                && self.may_record(gpu, stream)
                && marker.end().is_some_and(|event| gpu.record(event, stream));
            if recorded && let Some(device) = self.device(marker.device()) {
                describe(marker, span);
                device.flight.depart(span.estimate.get(), now);
                self.markers.closed(handle, now);
            } else {
                self.markers.free(handle);
            }
        }
        span.clear();
    }

    /// Closes a span although the launch at hand is not on its stream.
    fn close_elsewhere(&self, gpu: &impl Gpu, span: &Span) {
        if span.is_open() {
            if span.stream().joins_others() {
                self.abandon(span);
            } else {
                self.close(gpu, span);
            }
        }
    }

    /// Closes all of a thread's spans, because it is about to wait. Where the first launch after that goes
    /// to the same stream, it has to open another.
    fn close_all(&self, gpu: &impl Gpu, thread: &Thread, own: usize) {
        thread.spans_closed.set(0);
        for span in &thread.spans {
            if span.is_open() && (span.stream.get() == own || !span.stream().joins_others()) {
                self.close(gpu, span);
                span.stream.set(0);
                thread.spans_closed.set(thread.spans_closed.get() + 1);
            }
        }
    }

    /// Gives a span up: what was charged for it stays as estimated.
    fn abandon(&self, span: &Span) {
        self.markers.free(span.marker.get());
        span.clear();
    }

    fn may_record(&self, gpu: &impl Gpu, stream: Stream) -> bool {
        !self.is_capturing() || !gpu.captures(stream)
    }

    fn age(&self, span: &Span, now: u64) -> u64 {
        self.markers
            .get(span.marker.get())
            .map_or(0, |marker| now.saturating_sub(marker.opened()))
    }

    /// Charges what the markers show that the GPU has passed.
    fn settle(&self, gpu: &impl Gpu, place: Place<'_>, now: u64) {
        let Place {
            index,
            device,
            account,
        } = place;
        if device.flight.is_empty() {
            return;
        }
        let Some(mut settler) = device.settler.try_lock() else {
            return;
        };
        let mut unpassed = 0;
        for (handle, marker) in self.markers.pending(index) {
            let estimate = marker.estimate.load(Relaxed);
            match marker
                .end()
                .map_or(Passed::Never, |event| gpu.passed(event))
            {
                Passed::No => {
                    if unpassed == 0 {
                        device.flight.lead(estimate);
                    }
                    unpassed += 1;
                    if unpassed == UNPASSED {
                        break;
                    }
                    continue;
                }
                Passed::Never => {}
                Passed::Yes => {
                    if let Some(settled) = settler.settle(gpu, marker) {
                        account.bucket.settle(estimate, settled.charge);
                        if let Some((low, high)) = settled.launch {
                            self.costs.learn(
                                marker.shape.load(Relaxed),
                                marker.function.load(Relaxed),
                                marker.size.load(Relaxed),
                                low,
                                high,
                            );
                        }
                    }
                }
            }
            device.flight.arrive(estimate, now);
            self.markers.settled(handle);
        }
    }

    /// Before the thread waits for the GPU, or puts something on a stream that is not work of ours:
    /// what it has launched is closed, on one stream or on all.
    pub(super) fn pause(&self, gpu: &impl Gpu, thread: &Thread, stream: Option<Stream>) {
        if !thread.spans.iter().any(Span::is_open) {
            return;
        }
        gpu.quietly(|| {
            for span in &thread.spans {
                let meant = match stream {
                    None => !span.stream().joins_others(),
                    Some(stream) => span.stream.get() == stream.key(),
                };
                if span.is_open() && meant {
                    self.close(gpu, span);
                    span.stream.set(0);
                }
            }
        });
    }

    /// Charges a launch to a device by its estimate, without measuring it, and waits for the time.
    pub(super) fn toll(&self, gpu: &impl Gpu, index: usize, work: &Work) {
        let Some(device) = self.device(index) else {
            return;
        };
        let Some(account) = device.account() else {
            return;
        };
        let place = Place {
            index,
            device,
            account,
        };
        let price = self.costs.find_or_guess(work).ns;
        let thread = Thread::new();
        gpu.quietly(|| {
            self.settle(gpu, place, gpu.now());
            self.take(gpu, &thread, place, work.stream.key(), price)
        });
        account.bucket.give_back(thread.batch.get() - price);
        account.bucket.count_launches(1);
    }

    /// After the thread has waited for the GPU: settles what it can.
    pub(super) fn resume(&self, gpu: &impl Gpu, thread: &Thread) {
        let Some(index) = thread.device.get().checked_sub(1) else {
            return;
        };
        if let Some(device) = self.device(index)
            && !device.flight.is_empty()
            && let Some(account) = device.account()
        {
            let now = gpu.now();
            let place = Place {
                index,
                device,
                account,
            };
            gpu.quietly(|| self.settle(gpu, place, now));
        }
    }

    /// A stream is about to be destroyed.
    pub(super) fn drop_stream(&self, gpu: &impl Gpu, stream: Stream) {
        let patience = Patience::begin(gpu);
        self.markers.drop_stream(stream, || patience.wait(gpu));
        self.next_epoch();
    }

    /// A context (or every one) is about to be destroyed or reset. `events_die`: its events go with it;
    /// else they are destroyed here.
    pub(super) fn drop_context(&self, gpu: &impl Gpu, context: Option<Context>, events_die: bool) {
        let patience = Patience::begin(gpu);
        let now = gpu.now();
        for (index, device) in self.devices.iter().enumerate() {
            let Some(account) = device.account() else {
                continue;
            };
            // What has ended is settled while its events can still be asked.
            let place = Place {
                index,
                device,
                account,
            };
            gpu.quietly(|| self.settle(gpu, place, now));
            while device.settler.try_lock().is_none_or(|mut settler| {
                if let Some(event) = settler.drop_context(context)
                    && !events_die
                {
                    gpu.quietly(|| gpu.destroy(event));
                }
                false
            }) && patience.wait(gpu)
            {}
        }
        self.markers.drop_context(
            context,
            || patience.wait(gpu),
            |marker, pending| {
                if pending && let Some(device) = self.device(marker.device()) {
                    device.flight.arrive(marker.estimate.load(Relaxed), now);
                }
                if !events_die {
                    for event in marker.strip().into_iter().flatten() {
                        gpu.quietly(|| gpu.destroy(event));
                    }
                }
            },
        );
        self.next_epoch();
    }

    /// Forgets everything in a forked child: limits, markers, captures and work are its parent's.
    pub(super) fn reset(&self) {
        let epoch = self.hot.epoch.swap(UNKNOWN, Relaxed);
        self.last_epoch.fetch_max(epoch, Relaxed);
        self.hot.captures.store(0, Relaxed);
        self.markers.reset();
        for device in &self.devices {
            device.reset();
        }
    }
}

/// Writes a span's launches into its marker.
fn describe(marker: &super::markers::Marker, span: &Span) {
    marker.estimate.store(span.estimate.get(), Relaxed);
    marker.launches.store(span.launches.get(), Relaxed);
    let single = span
        .first
        .get()
        .filter(|first| first.shape == span.shape.get());
    let (about, launches, estimate) = match (single, span.young.get()) {
        (Some(work), _) => (Some(work), span.launches.get(), span.estimate.get()),
        (None, Some(work)) => (
            Some(work),
            span.young_launches.get(),
            span.young_estimate.get(),
        ),
        (None, None) => (None, 0, 0),
    };
    marker.shape_launches.store(launches, Relaxed);
    marker.shape_estimate.store(estimate, Relaxed);
    match about {
        Some(work) => marker.about(&work),
        None => marker.shape.store(0, Relaxed),
    }
}

/// How long a hook on a destruction waits for another thread that is in the middle of a call of ours.
struct Patience(u64);

impl Patience {
    fn begin(gpu: &impl Gpu) -> Self {
        Self(gpu.now().saturating_add(LONGEST_WAIT))
    }

    fn wait(&self, gpu: &impl Gpu) -> bool {
        let word = AtomicU32::new(0);
        let now = gpu.now();
        if now < self.0 {
            gpu.sleep_until(now + 50_000, &word);
        }
        now < self.0
    }
}
