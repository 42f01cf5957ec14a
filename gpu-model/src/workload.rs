//! What programs do, as straight code.

use std::rc::Rc;

use crate::host::Host;
use crate::params::{MS, US};

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
