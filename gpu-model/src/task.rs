//! What every thread of a host does: let time pass, sleep, wait.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::device::NEVER;
use crate::params::Spread;
use crate::world::{World, Yield};

/// A thread of a host.
pub struct Task<'a> {
    /// Where it lives.
    pub world: Rc<World>,
    yielder: &'a Yield,
    /// Its number.
    pub number: usize,
    clock: Cell<u64>,
    stalls_at: Cell<u64>,
    rng: RefCell<fastrand::Rng>,
}

impl<'a> Task<'a> {
    /// A thread that begins.
    #[must_use]
    pub fn new(world: Rc<World>, number: usize, now: u64, yielder: &'a Yield, seed: u64) -> Self {
        let seed = seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let task = Self {
            world,
            yielder,
            number,
            clock: Cell::new(now),
            stalls_at: Cell::new(NEVER),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
        };
        task.plan_stall();
        task
    }

    fn plan_stall(&self) {
        let every = self.world.params.stall_every;
        if every > 0 {
            let after = self.draw(Spread(0, 2 * every));
            self.stalls_at.set(self.clock.get() + after);
        }
    }

    /// A number of a spread.
    pub fn draw(&self, spread: Spread) -> u64 {
        spread.draw(&mut self.rng.borrow_mut())
    }

    /// Its clock.
    pub fn now(&self) -> u64 {
        self.clock.get()
    }

    /// It works for so long.
    pub fn pass(&self, ns: u64) {
        let now = self.clock.get() + ns;
        self.clock.set(now);
        if now >= self.stalls_at.get() {
            self.clock.set(now + self.draw(self.world.params.stall));
            self.plan_stall();
        }
    }

    /// Before it observes anything: what is earlier has happened.
    pub fn catch_up(&self) {
        let now = self.clock.get();
        self.clock
            .set(self.world.catch_up(self.number, now, self.yielder));
    }

    /// Waits until somebody wakes it.
    fn suspend(&self, at: u64) {
        self.world.resume_at(self.number, at);
        let now = self.yielder.suspend(());
        self.clock.set(self.clock.get().max(now));
    }

    /// Sleeps until a time, and a little longer.
    pub fn sleep_until(&self, at: u64) {
        let late = self.draw(self.world.params.wake);
        self.suspend(at.max(self.now()) + late);
    }

    /// Sleeps for so long.
    pub fn sleep(&self, ns: u64) {
        self.sleep_until(self.now() + ns);
    }

    /// Sleeps until a time, or until somebody wakes the word.
    pub fn sleep_on(&self, word: usize, at: u64) {
        self.world.sleeps_on(word, self.number);
        let late = self.draw(self.world.params.wake);
        self.suspend(at.saturating_add(late));
        self.world.woke(self.number);
    }

    /// Wakes those that sleep on a word.
    pub fn wake(&self, word: usize) {
        self.pass(self.world.params.call);
        self.catch_up();
        self.world.wake(word, self.now());
    }

    /// Waits until so many of a stream are done.
    pub fn wait_for(&self, device: usize, context: usize, stream: usize, done: u64) {
        self.catch_up();
        let waits = self.world.device(device, |device| {
            let waits = device.done(context, stream) < done;
            if waits {
                device.watch(context, stream, done, self.number);
            }
            waits
        });
        if waits {
            self.suspend(NEVER);
        }
    }
}
