//! The beginnings and ends of spans: which events are recorded where.

use quota_abi::sync::Ordering::Relaxed;

use crate::cost::Cost;
use crate::engine::Engine;
use crate::gpu::{Context, Gpu};
use crate::marker::{Handle, Marker};
use crate::shape::{Stream, Work};
use crate::thread::{Span, Thread};

/// Joined launches of unknown cost that go unmeasured, before one is measured all the same.
const JOINS: u32 = 64;

/// A host that takes longer to record an event has lost its processor meanwhile, ns: on which side of the event is not
/// known, and that time must not look like work.
const RECORDING: u64 = 20_000;

impl Engine {
    /// Whether no marker may come before a launch. A stream whose launches are all joined, and whose costs
    /// are not known, has to be interrupted once in a while.
    pub(crate) fn stays_joined(&self, span: &Span, work: &Work, cost: Cost) -> bool {
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

    /// Records the first event of a span. Without a free marker, or events, the span goes unmeasured.
    pub(crate) fn open(
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
        let before = gpu.now();
        let ready = self.equip(gpu, handle, context)
            && self.may_record(gpu, work.stream)
            && marker
                .begin()
                .is_some_and(|event| gpu.record(event, work.stream));
        let after = gpu.now();
        let interrupted = after.saturating_sub(before) > RECORDING;
        if interrupted {
            marker.was_interrupted();
        }
        let opened = if interrupted { before } else { after };
        if !ready || !self.markers.open(handle, opened) {
            self.markers.free(handle);
            return false;
        }
        span.marker.set(handle);
        span.begin_with(work);
        true
    }

    /// Makes sure that a marker has two events of a context.
    pub(crate) fn equip(&self, gpu: &impl Gpu, handle: Handle, context: Context) -> bool {
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
    pub(crate) fn close(&self, gpu: &impl Gpu, span: &Span) {
        let handle = span.marker.get();
        let stream = span.stream();
        let Some(marker) = self.markers.get(handle) else {
            return;
        };
        if self.markers.begin_closing(handle) {
            let before = gpu.now();
            let recorded = span.launches.get() > 0
                && self.may_record(gpu, stream)
                && marker.end().is_some_and(|event| gpu.record(event, stream));
            if recorded && let Some(device) = self.device(marker.device()) {
                let after = gpu.now();
                let interrupted = after.saturating_sub(before) > RECORDING;
                if interrupted {
                    marker.was_interrupted();
                }
                let now = if interrupted { after } else { before };
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
    pub(crate) fn close_elsewhere(&self, gpu: &impl Gpu, span: &Span) {
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
    pub(crate) fn close_all(&self, gpu: &impl Gpu, thread: &Thread, own: usize) {
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
    pub(crate) fn abandon(&self, span: &Span) {
        self.markers.free(span.marker.get());
        span.clear();
    }

    pub(crate) fn may_record(&self, gpu: &impl Gpu, stream: Stream) -> bool {
        !self.is_capturing() || !gpu.captures(stream)
    }

    pub(crate) fn age(&self, span: &Span, now: u64) -> u64 {
        self.markers
            .get(span.marker.get())
            .map_or(0, |marker| now.saturating_sub(marker.opened()))
    }

    /// Before the thread waits for the GPU, or puts something on a stream that is not work of ours:
    /// what it has launched is closed, on one stream or on all.
    pub fn pause(&self, gpu: &impl Gpu, thread: &Thread, stream: Option<Stream>) {
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
}

/// Writes a span's launches into its marker.
fn describe(marker: &Marker, span: &Span) {
    marker.estimate.store(span.estimate.get(), Relaxed);
    marker.launches.store(span.launches.get(), Relaxed);
    let single = span.first().filter(|first| first.shape == span.shape.get());
    let (about, launches, estimate) = match (single, span.young()) {
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
