//! The GPU of this process: its streams, what they wait for, and when things happen.
//!
//! Two axes. A kernel lasts so many nanoseconds of the GPU time that this process is dealt (`tau`,
//! see `gpu_sim_core`); a copy over the bus lasts so many real nanoseconds. As long as a stream
//! holds only kernels, fills and marks, the `tau` at which each ends is known when it is enqueued,
//! and nothing is queued at all: the stream is its `tail`. Everything else (copies, host functions,
//! waits for memory words) is queued from the first such item on, and *driven*: [`drive`] goes
//! through what has happened since, in order, each thing at its own instant. The executor thread
//! and every call that waits drive; a launch does not, unless something is due.
//!
//! Locks: `DRIVING` is held by the one thread that drives, `ENGINE` only for a moment. Effects run
//! with `DRIVING` held and `ENGINE` free. The shared mutex of the simulation comes last.

mod drive;
mod host;
mod leave;
mod mark;
mod order;
mod queue;
mod submit;
mod wait;

use std::collections::{BinaryHeap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::CUresult;
use gpu_sim_core::{FOREVER, Timeline};

pub(crate) use drive::{drive_if_free, run_executor};
pub(crate) use leave::{abandon_context, destroy_stream, streams_of};
pub(crate) use mark::Mark;
pub(crate) use queue::{Condition, CopyEngine, Effect, Kind, StreamKey, Work};
pub(crate) use submit::{create_stream, enqueue, is_idle, launch, mark, wait_for_mark};
pub(crate) use wait::synchronize;

use self::drive::Agenda;
use self::queue::Stream;

static DRIVING: Mutex<()> = Mutex::new(());
static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);

/// Everything that `ENGINE` guards.
pub(crate) struct Engine {
    /// By the simulation's index, from a process's first stream on the device on.
    devices: Vec<Option<Device>>,
    streams: Vec<Option<Stream>>,
    free: Vec<usize>,
    /// Destroyed streams whose work is not done.
    leaving: Vec<StreamKey>,
    /// Streams of each context that take part in the legacy stream's order.
    orders: HashMap<u64, Order>,
    /// What happens at a real time: ends of copies.
    real: BinaryHeap<Agenda>,
    /// Streams whose first item is to be looked at again and again.
    polled: Vec<StreamKey>,
    sequence: u64,
    generation: u64,
}

/// One device as this process uses it.
struct Device {
    timeline: Timeline,
    /// `tau` at which the last kernel whose end is known ends.
    end: u64,
    /// Kernels of unknown end that hold the device.
    spinning: u32,
    /// What happens at a `tau` and must be acted on.
    acts: BinaryHeap<Agenda>,
    /// Marks whose real time is to be found out when their `tau` has passed.
    stamps: BinaryHeap<Agenda>,
    /// When each copy engine is free again.
    copies: [u64; 2],
}

/// The streams of a context that the legacy stream waits for, and that wait for it.
#[derive(Default)]
struct Order {
    legacy: Option<StreamKey>,
    blocking: Vec<StreamKey>,
}

impl Engine {
    fn new() -> Self {
        Self {
            devices: Vec::new(),
            streams: Vec::new(),
            free: Vec::new(),
            leaving: Vec::new(),
            orders: HashMap::new(),
            real: BinaryHeap::new(),
            polled: Vec::new(),
            sequence: 0,
            generation: 0,
        }
    }

    fn device(&mut self, device: usize) -> &mut Device {
        self.devices
            .get_mut(device)
            .and_then(Option::as_mut)
            .unwrap_or_else(|| unreachable!("a stream's device has a timeline"))
    }

    /// The devices that are used.
    fn used_devices(&self) -> impl Iterator<Item = (usize, &Device)> {
        let devices = self.devices.iter().enumerate();
        devices.filter_map(|(index, device)| Some((index, device.as_ref()?)))
    }

    /// The stream, unless it is gone.
    fn stream(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.streams
            .get_mut(key.index)?
            .as_mut()
            .filter(|stream| stream.generation == key.generation)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl Device {
    /// How far the work of this process reaches.
    fn horizon(&self) -> u64 {
        if self.spinning > 0 { FOREVER } else { self.end }
    }

    /// Tells the simulation about work, when the time up to now has been dealt.
    fn publish(&mut self) {
        if self.horizon() != self.timeline.horizon() {
            let horizon = self.horizon();
            self.timeline.submit(horizon);
        }
    }
}

/// The engine, locked and made if this is the first use.
fn lock() -> Locked {
    let mut guard = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_with(Engine::new);
    Locked(guard)
}

/// The locked engine.
struct Locked(MutexGuard<'static, Option<Engine>>);

impl std::ops::Deref for Locked {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        self.0
            .as_ref()
            .unwrap_or_else(|| unreachable!("made by lock()"))
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Engine {
        self.0
            .as_mut()
            .unwrap_or_else(|| unreachable!("made by lock()"))
    }
}

/// What a call on a stream that is gone gets.
const GONE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;
