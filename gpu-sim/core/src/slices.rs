//! How a device's time is dealt to the processes that have work for it.
//!
//! Each process has its own axis of GPU time, `tau`: the nanoseconds of the device that it has
//! owned. `consumed` is where it stands, its [`Door`]'s `horizon` is how far the work reaches that
//! it has submitted. A process with `horizon > consumed` wants the device; those that want it take
//! turns of one slice. Nothing runs in the background: [`DeviceTime::advance`] computes what has
//! happened since it was last called, to the nanosecond, and writes down for each process which
//! stretch of `tau` lay where in real time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::layout::MAX_PROCESSES;

/// Where number `index` of an endless row lies in a ring of `length`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the remainder is below a usize"
)]
const fn place(index: u64, length: usize) -> usize {
    (index % length as u64) as usize
}

/// A horizon that is never reached: a kernel that spins.
pub const FOREVER: u64 = u64::MAX;

/// Utilisation is recorded per window of this length: the sampling period of the real NVML.
pub const WINDOW_NS: u64 = 1_000_000_000 / 6;
const WINDOWS: usize = 64;

/// Stretches of time remembered per process and device. A process that has work in flight looks
/// at least every 100 ms, which is 100 slices.
const SEGMENTS: usize = 256;

/// Where a process says how much work it has. Written without the mutex.
#[repr(C)]
pub(crate) struct Door {
    /// `tau` until which submitted work lasts.
    pub(crate) horizon: AtomicU64,
    /// Whether the process is on the device's list of those that take turns. Cleared only with
    /// the mutex held and nothing left to do.
    pub(crate) active: AtomicU32,
}

/// `tau` in `(tau, tau + length]` was owned at `real` onwards.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Segment {
    tau: u64,
    real: u64,
    length: u64,
}

/// One process's part of a device's time.
#[repr(C)]
pub(crate) struct Lane {
    pub(crate) consumed: u64,
    pub(crate) busy_ns: u64,
    /// Segments ever written; the last ones are in the ring.
    count: u64,
    segments: [Segment; SEGMENTS],
    windows: Windows,
}

/// A device's time.
#[repr(C)]
pub(crate) struct DeviceTime {
    /// Real time up to which the dealing has been computed.
    pub(crate) last: u64,
    pub(crate) busy_ns: u64,
    slice_left: u64,
    cursor: u32,
    queue_length: u32,
    queue: [u16; MAX_PROCESSES],
    windows: Windows,
    pub(crate) lanes: [Lane; MAX_PROCESSES],
}

/// Busy time per window, each entry tagged with the window it is for.
#[repr(C)]
struct Windows([(u64, u64); WINDOWS]);

impl Windows {
    fn add(&mut self, window: u64, busy: u64) {
        let entry = &mut self.0[place(window, WINDOWS)];
        if entry.0 != window {
            *entry = (window, 0);
        }
        entry.1 += busy;
    }

    fn busy(&self, window: u64) -> u64 {
        let entry = self.0[place(window, WINDOWS)];
        if entry.0 == window { entry.1 } else { 0 }
    }
}

/// Where to stop before `until` is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) slot: usize,
    pub(crate) tau: u64,
}

impl DeviceTime {
    /// Deals the time from the last call to `until` (earlier when `stop.slot` gets to `stop.tau`).
    pub(crate) fn advance(&mut self, doors: &[Door], slice: u64, until: u64, stop: Option<Stop>) {
        while self.last < until {
            if self.queue_length == 0 {
                self.last = until;
                return;
            }
            self.cursor %= self.queue_length;
            let slot = self.queue[self.cursor as usize] as usize;
            let work = self.work(doors, slot);
            if work == 0 {
                self.drained(doors, slot);
                self.slice_left = slice;
                continue;
            }
            if self.slice_left == 0 {
                self.slice_left = slice;
            }
            let window = self.last / WINDOW_NS;
            let mut run = work
                .min(until - self.last)
                .min((window + 1) * WINDOW_NS - self.last);
            let alone = self.queue_length == 1;
            if !alone {
                run = run.min(self.slice_left);
            }
            if let Some(stop) = stop.filter(|stop| stop.slot == slot) {
                let left = stop.tau.saturating_sub(self.lanes[slot].consumed);
                if left == 0 {
                    return;
                }
                run = run.min(left);
            }
            self.deal(slot, window, run);
            // A process that is alone keeps the device, and its slices go on being counted.
            self.slice_left = if alone {
                slice - (slice - self.slice_left + run) % slice
            } else {
                self.slice_left - run
            };
            if self.slice_left == 0 {
                self.cursor += 1;
            }
            if stop.is_some_and(|stop| stop.slot == slot && self.lanes[slot].consumed >= stop.tau) {
                return;
            }
        }
    }

    /// Puts `slot` on the list of those that take turns, as the last of the round.
    pub(crate) fn activate(&mut self, doors: &[Door], slot: usize, slice: u64) {
        if doors[slot].active.load(SeqCst) != 0 {
            return;
        }
        doors[slot].active.store(1, SeqCst);
        let length = self.queue_length as usize;
        let at = if length == 0 {
            self.slice_left = slice;
            0
        } else {
            self.cursor as usize % length
        };
        // Whoever has the device now moves up by one: the newcomer is served after all others.
        self.queue.copy_within(at..length, at + 1);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "slots are below MAX_PROCESSES"
        )]
        {
            self.queue[at] = slot as u16;
            self.cursor = if length == 0 { 0 } else { at as u32 + 1 };
        }
        self.queue_length += 1;
    }

    /// Takes a dead process off the list.
    pub(crate) fn remove(&mut self, doors: &[Door], slot: usize, slice: u64) {
        doors[slot].active.store(0, SeqCst);
        doors[slot].horizon.store(0, SeqCst);
        self.take_from_queue(slot, slice);
    }

    /// Rebuilds the list after somebody died while writing it.
    pub(crate) fn repair(&mut self, doors: &[Door], slice: u64) {
        self.queue_length = 0;
        self.cursor = 0;
        self.slice_left = slice;
        for slot in 0..doors.len() {
            let active = doors[slot].active.load(SeqCst) != 0
                || doors[slot].horizon.load(SeqCst) > self.lanes[slot].consumed;
            if active {
                doors[slot].active.store(0, SeqCst);
                self.activate(doors, slot, slice);
            }
        }
    }

    /// When process `slot` got to `tau`; `None` if it has not, or that was too long ago.
    pub(crate) fn real_of(&self, slot: usize, tau: u64) -> Option<u64> {
        let lane = &self.lanes[slot];
        if tau > lane.consumed {
            return None;
        }
        let oldest = lane.count.saturating_sub(SEGMENTS as u64);
        (oldest..lane.count).rev().find_map(|index| {
            let segment = lane.segments[place(index, SEGMENTS)];
            (segment.tau < tau && tau <= segment.tau + segment.length)
                .then(|| segment.real + (tau - segment.tau))
        })
    }

    /// Busy nanoseconds of the device, or of one process on it, in a window.
    pub(crate) fn busy_in_window(&self, slot: Option<usize>, window: u64) -> u64 {
        match slot {
            Some(slot) => self.lanes[slot].windows.busy(window),
            None => self.windows.busy(window),
        }
    }

    /// How many processes want the device.
    pub(crate) fn contenders(&self) -> u32 {
        self.queue_length
    }

    fn work(&self, doors: &[Door], slot: usize) -> u64 {
        doors[slot]
            .horizon
            .load(SeqCst)
            .saturating_sub(self.lanes[slot].consumed)
    }

    fn drained(&mut self, doors: &[Door], slot: usize) {
        // SYNC POINT with `Timeline::extend`: it stores the horizon, then reads `active`; here
        // `active` is stored, then the horizon is read. One of the two sees the other.
        doors[slot].active.store(0, SeqCst);
        if self.work(doors, slot) > 0 {
            doors[slot].active.store(1, SeqCst);
        } else {
            self.take_from_queue(slot, 0);
        }
    }

    fn take_from_queue(&mut self, slot: usize, slice: u64) {
        let length = self.queue_length as usize;
        let Some(at) = self.queue[..length]
            .iter()
            .position(|queued| *queued as usize == slot)
        else {
            return;
        };
        let current = self.cursor as usize % length;
        self.queue.copy_within(at + 1..length, at);
        self.queue_length -= 1;
        if at < current {
            self.cursor = self.cursor.saturating_sub(1);
        } else if at == current {
            self.slice_left = slice;
        }
    }

    fn deal(&mut self, slot: usize, window: u64, run: u64) {
        let lane = &mut self.lanes[slot];
        let newest = place(lane.count.wrapping_sub(1), SEGMENTS);
        let previous = lane.segments[newest];
        let goes_on = lane.count > 0
            && previous.tau + previous.length == lane.consumed
            && previous.real + previous.length == self.last;
        if goes_on {
            lane.segments[newest].length += run;
        } else {
            lane.segments[place(lane.count, SEGMENTS)] = Segment {
                tau: lane.consumed,
                real: self.last,
                length: run,
            };
            lane.count += 1;
        }
        lane.consumed += run;
        lane.busy_ns += run;
        lane.windows.add(window, run);
        self.busy_ns += run;
        self.windows.add(window, run);
        self.last += run;
    }
}

#[cfg(test)]
mod tests;
