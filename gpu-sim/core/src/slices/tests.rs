use super::*;

const SLICE: u64 = 1_024_000;

/// A device with doors, in plain memory.
struct Bench {
    time: Box<DeviceTime>,
    doors: Vec<Door>,
}

impl Bench {
    fn new() -> Self {
        let layout = std::alloc::Layout::new::<DeviceTime>();
        // SAFETY: all zero bytes are a valid DeviceTime, and the layout is its own.
        let time = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<DeviceTime>()) };
        let door = || Door {
            horizon: AtomicU64::new(0),
            active: AtomicU32::new(0),
        };
        Self {
            time,
            doors: (0..8).map(|_| door()).collect(),
        }
    }

    fn advance(&mut self, until: u64) {
        self.time.advance(&self.doors, SLICE, until, None);
    }

    /// Adds work for `slot` at the time that has been reached.
    fn submit(&mut self, slot: usize, length: u64) {
        let horizon = self.doors[slot].horizon.load(SeqCst);
        let from = horizon.max(self.time.lanes[slot].consumed);
        self.doors[slot].horizon.store(from + length, SeqCst);
        self.time.activate(&self.doors, slot, SLICE);
    }

    fn consumed(&self, slot: usize) -> u64 {
        self.time.lanes[slot].consumed
    }

    /// Lets `slot` launch kernels of `kernel` ns back to back, each when the one before has ended.
    fn step(&mut self, until: u64, kernels: &[(usize, u64)]) {
        while self.time.last < until {
            for (slot, kernel) in kernels {
                if self.doors[*slot].horizon.load(SeqCst) < self.consumed(*slot) + 2 * kernel {
                    self.submit(*slot, *kernel);
                }
            }
            let next = (self.time.last + 1000).min(until);
            self.advance(next);
        }
    }
}

#[test]
fn alone_a_process_gets_everything() {
    let mut bench = Bench::new();
    bench.submit(3, 10 * SLICE);
    bench.advance(4 * SLICE + 17);
    assert_eq!(bench.consumed(3), 4 * SLICE + 17);
    bench.advance(20 * SLICE);
    assert_eq!(bench.consumed(3), 10 * SLICE);
    assert_eq!(bench.time.last, 20 * SLICE);
    assert_eq!(bench.time.contenders(), 0);
}

#[test]
fn equal_work_is_shared_in_slices() {
    let mut bench = Bench::new();
    bench.submit(0, 100 * SLICE);
    bench.submit(1, 100 * SLICE);
    bench.advance(SLICE / 2);
    assert_eq!((bench.consumed(0), bench.consumed(1)), (SLICE / 2, 0));
    bench.advance(SLICE + SLICE / 4);
    assert_eq!((bench.consumed(0), bench.consumed(1)), (SLICE, SLICE / 4));
    bench.advance(100 * SLICE);
    assert_eq!(bench.consumed(0), 50 * SLICE);
    assert_eq!(bench.consumed(1), 50 * SLICE);
    bench.advance(200 * SLICE);
    assert_eq!(bench.time.busy_ns, 200 * SLICE);
}

#[test]
fn short_kernels_back_to_back_get_as_much_as_long_ones() {
    let mut bench = Bench::new();
    bench.step(200_000_000, &[(0, 20_000), (1, 5_000_000)]);
    let (short, long) = (bench.consumed(0), bench.consumed(1));
    assert_eq!(short + long, 200_000_000);
    assert!(short.abs_diff(long) <= 2 * SLICE, "{short} {long}");
}

#[test]
fn who_drains_in_mid_slice_hands_over_at_that_instant() {
    let mut bench = Bench::new();
    bench.submit(0, 20_000);
    bench.submit(1, 5_000_000);
    bench.advance(3_000_000);
    assert_eq!(bench.consumed(0), 20_000);
    assert_eq!(bench.consumed(1), 3_000_000 - 20_000);
    assert_eq!(bench.time.real_of(1, 1), Some(20_001));
}

#[test]
fn a_newcomer_is_served_after_the_others() {
    let mut bench = Bench::new();
    for slot in 0..3 {
        bench.submit(slot, 10 * SLICE);
    }
    bench.advance(SLICE + 1);
    bench.submit(7, 10 * SLICE);
    bench.advance(3 * SLICE);
    assert_eq!(bench.consumed(2), SLICE);
    assert_eq!(bench.consumed(7), 0);
    // Slot 0 was waiting for its turn when 7 came: it goes first.
    bench.advance(4 * SLICE);
    assert_eq!((bench.consumed(0), bench.consumed(7)), (2 * SLICE, 0));
    bench.advance(5 * SLICE);
    assert_eq!(bench.consumed(7), SLICE);
}

#[test]
fn idle_time_is_skipped() {
    let mut bench = Bench::new();
    bench.advance(1 << 60);
    bench.submit(0, 50);
    bench.advance((1 << 60) + 100);
    assert_eq!(bench.consumed(0), 50);
    assert_eq!(bench.time.real_of(0, 50), Some((1 << 60) + 50));
}

#[test]
fn advancing_stops_where_asked() {
    let mut bench = Bench::new();
    bench.submit(0, 10 * SLICE);
    bench.submit(1, 10 * SLICE);
    let stop = Stop {
        slot: 1,
        tau: SLICE / 2,
    };
    bench
        .time
        .advance(&bench.doors, SLICE, 100 * SLICE, Some(stop));
    assert_eq!(bench.time.last, SLICE + SLICE / 2);
    assert_eq!(bench.consumed(1), SLICE / 2);
}

#[test]
fn times_are_found_after_the_fact() {
    let mut bench = Bench::new();
    bench.submit(0, 10 * SLICE);
    bench.submit(1, 10 * SLICE);
    bench.advance(40 * SLICE);
    for turn in 0..10 {
        let tau = turn * SLICE + 5;
        assert_eq!(bench.time.real_of(0, tau), Some(2 * turn * SLICE + 5));
        assert_eq!(bench.time.real_of(1, tau), Some((2 * turn + 1) * SLICE + 5));
    }
    assert_eq!(bench.time.real_of(0, 11 * SLICE), None);
}

#[test]
fn windows_say_how_busy_the_device_was() {
    let mut bench = Bench::new();
    bench.advance(WINDOW_NS / 2);
    bench.submit(0, WINDOW_NS);
    bench.advance(10 * WINDOW_NS);
    let busy = |window| bench.time.busy_in_window(Some(0), window);
    assert_eq!(busy(0), WINDOW_NS - WINDOW_NS / 2);
    assert_eq!(busy(1), WINDOW_NS / 2);
    assert_eq!(busy(2), 0);
    assert_eq!(bench.time.busy_in_window(None, 1), busy(1));
}

#[test]
fn a_torn_queue_is_rebuilt() {
    let mut bench = Bench::new();
    bench.submit(0, 10 * SLICE);
    bench.submit(1, 10 * SLICE);
    bench.time.queue_length = 0;
    bench.time.repair(&bench.doors, SLICE);
    bench.advance(20 * SLICE);
    assert_eq!(bench.consumed(0), 10 * SLICE);
    assert_eq!(bench.consumed(1), 10 * SLICE);
}

#[test]
fn a_dead_process_makes_room() {
    let mut bench = Bench::new();
    bench.submit(0, FOREVER / 2);
    bench.submit(1, 10 * SLICE);
    bench.advance(SLICE / 2);
    bench.time.remove(&bench.doors, 0, SLICE);
    bench.advance(2 * SLICE);
    assert_eq!(bench.consumed(1), 2 * SLICE - SLICE / 2);
    assert_eq!(bench.time.contenders(), 1);
}
