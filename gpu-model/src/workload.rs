//! What programs do, as straight code.

use std::rc::Rc;

use crate::host::Host;
use crate::params::{MS, Spread, US};
use crate::world::START;

/// What a thread does until it is ended.
pub type Program = Rc<dyn Fn(&Host<'_>)>;

/// Launches one kernel without pause.
#[must_use]
pub fn saturate(ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            host.launch(0, 1, 100, ns);
        }
    })
}

/// Launches one kernel and waits for it.
#[must_use]
pub fn one_by_one(ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            host.launch(0, 1, 100, ns);
            host.synchronise();
        }
    })
}

/// One shape that takes 20 µs nine times of ten, else 2 ms.
#[must_use]
pub fn mixture() -> Program {
    Rc::new(|host| {
        let mut dice = fastrand::Rng::with_seed(host.task.number as u64 + 1);
        loop {
            let long = dice.u8(0..10) == 0;
            host.launch(0, 1, 100, if long { 2 * MS } else { 20 * US });
        }
    })
}

/// One shape that takes 20 µs for 200 ms of GPU time, then 1 ms for as long.
#[must_use]
pub fn phases() -> Program {
    Rc::new(|host| {
        loop {
            for ns in [20 * US, MS] {
                for _ in 0..200 * MS / ns {
                    host.launch(0, 1, 100, ns);
                }
            }
        }
    })
}

/// A new shape at every launch.
#[must_use]
pub fn new_shapes(ns: u64) -> Program {
    Rc::new(move |host| {
        let mut blocks = 1;
        loop {
            blocks += 1;
            host.launch(0, 1 + blocks as usize % 7, blocks, ns);
        }
    })
}

/// Launches one graph of so many kernels of 10 µs without pause.
#[must_use]
pub fn graphs(nodes: u32) -> Program {
    Rc::new(move |host| {
        loop {
            host.launch_graph(0, 1, nodes, 10 * US);
        }
    })
}

/// Never launches anything.
#[must_use]
pub fn idle() -> Program {
    Rc::new(|host| {
        loop {
            host.sleep(1000 * MS);
        }
    })
}

/// Launches one kernel without pause, on so many streams in turn.
#[must_use]
pub fn on_streams(streams: usize, ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            for stream in 0..streams {
                host.launch(stream, 1, 100, ns);
            }
        }
    })
}

/// So many kernels each 50 ms, each burst marked from before its first launch to the end of the last kernel.
#[must_use]
pub fn bursts(kernels: u32, ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            let begin = host.now();
            for _ in 0..kernels {
                host.launch(0, 1, 100, ns);
            }
            host.synchronise();
            host.mark(begin);
            host.task.sleep_until(begin + 50 * MS);
        }
    })
}

/// Requests: 5 ms of work each 50 ms, in kernels of several kinds.
#[must_use]
pub fn inference() -> Program {
    Rc::new(|host| {
        loop {
            let begin = host.now();
            for layer in 0..20 {
                host.launch(0, 1, 200 + layer, 20 * US);
                host.launch(0, 2, 50, 180 * US);
                host.launch(0, 3, 10 + layer, 50 * US);
            }
            host.synchronise();
            host.mark(begin);
            host.task.sleep_until(begin + 50 * MS);
        }
    })
}

/// Steps of training: 300 kernels of many kinds, some 30 ms, then the host waits and works for 2 to 5 ms.
#[must_use]
pub fn training() -> Program {
    Rc::new(|host| {
        loop {
            for layer in 0..50 {
                host.launch(0, 1, 400 + layer, 300 * US);
                host.launch(0, 2, 20, 15 * US);
                host.launch(0, 3, 100 + layer, 40 * US);
                host.launch(0, 2, 21, 8 * US);
                host.launch(0, 4, 300 - layer, 220 * US);
                host.launch(0, 5, 7, 12 * US);
            }
            host.synchronise();
            host.work(host.task.draw(Spread(2 * MS, 5 * MS)));
        }
    })
}

/// Tokens of a language model: a graph of 8 ms, then a millisecond of the host's.
#[must_use]
pub fn decode() -> Program {
    Rc::new(|host| {
        loop {
            let begin = host.now();
            host.launch_graph(0, 1, 800, 10 * US);
            host.synchronise();
            host.mark(begin);
            host.work(MS);
        }
    })
}

/// Launches without pause, but not between two times after the beginning.
#[must_use]
pub fn idle_between(from: u64, to: u64, ns: u64) -> Program {
    Rc::new(move |host| {
        let (from, to) = (START + from, START + to);
        loop {
            let now = host.now();
            if now >= from && now < to {
                host.synchronise();
                host.task.sleep_until(to);
            }
            host.launch(0, 1, 100, ns);
        }
    })
}

/// On each of two devices a millisecond of work and then a kernel that waits for the other device's; waits for both.
#[must_use]
pub fn barriers(ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            let barrier = host.task.world.barrier(2, 2 * US);
            for device in 0..2 {
                host.use_device(device);
                host.launch(0, 1, 100, ns);
                host.launch_barrier(0, 2, barrier);
            }
            for device in 0..2 {
                host.use_device(device);
                host.synchronise();
            }
        }
    })
}

/// On each of two devices a kernel that waits for the other one's and then takes its time, without ever waiting for them.
#[must_use]
pub fn collectives(ns: u64) -> Program {
    Rc::new(move |host| {
        loop {
            let barrier = host.task.world.barrier(2, ns);
            for device in 0..2 {
                host.use_device(device);
                host.launch_barrier(0, 1, barrier);
            }
        }
    })
}
