//! One pool's charge: the larger of what it has handed out and what the driver holds for it.

use super::streams::Streams;

/// Where a pool's memory lies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On the device of this number.
    Device(u16),
    /// In host memory: never charged.
    Host,
    /// Another process's pool: each allocation that is imported from it is charged for itself.
    Imported,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// One that the program made.
    Alive,
    /// The device's own, whose memory goes with the device's last context.
    BuiltIn,
    /// Destroyed: the driver keeps what it has until everything handed out has been freed.
    Destroyed,
}

#[derive(Copy, Clone)]
pub(super) struct Pool {
    pub(super) handle: u64,
    pub(super) place: Place,
    pub(super) state: State,
    /// Bytes handed out.
    pub(super) handed: u64,
    /// Bytes that the driver held when it was last asked.
    pub(super) reserved: u64,
    /// Bytes charged.
    pub(super) charged: u64,
    /// Requests from it that the driver may be serving at this moment. What the driver takes for them they answer for themselves.
    pub(super) pending: u32,
    /// Number of the question that told `reserved`.
    pub(super) asked: u64,
    /// Where its memory was freed in order.
    pub(super) streams: Streams,
}

impl Pool {
    pub(super) const fn new(handle: u64, place: Place, state: State) -> Self {
        Self {
            handle,
            place,
            state,
            handed: 0,
            reserved: 0,
            charged: 0,
            pending: 0,
            asked: 0,
            streams: Streams::NONE,
        }
    }

    /// What it should be charged: a destroyed pool keeps what the driver held until the last of it comes back.
    pub(super) fn wanted(&self) -> u64 {
        if self.state == State::Destroyed && self.handed == 0 {
            return 0;
        }
        self.handed.max(self.reserved)
    }

    /// Hands out `bytes`; what that adds to the charge.
    pub(super) fn hand_out(&mut self, bytes: u64) -> u64 {
        self.pending = self.pending.saturating_add(1);
        self.handed = self.handed.saturating_add(bytes);
        let growth = self.handed.saturating_sub(self.charged);
        self.charged = self.charged.saturating_add(growth);
        growth
    }

    /// Undoes [`Self::hand_out`], whose growth was not kept. What else is to be given back.
    pub(super) fn take_back(&mut self, bytes: u64, growth: u64) -> u64 {
        self.pending = self.pending.saturating_sub(1);
        self.handed = self.handed.saturating_sub(bytes);
        self.charged = self.charged.saturating_sub(growth);
        self.lower()
    }

    /// Lowers the charge to what is wanted; what to give back.
    pub(super) fn lower(&mut self) -> u64 {
        let refund = self.charged.saturating_sub(self.wanted());
        self.charged -= refund;
        refund
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool::new(1, Place::Device(0), State::Alive)
    }

    #[test]
    fn a_pool_is_charged_the_larger_of_handed_out_and_reserved() {
        let mut pool = pool();
        assert_eq!(pool.hand_out(100), 100);
        pool.reserved = 250;
        assert_eq!((pool.lower(), pool.wanted()), (0, 250));
        pool.charged = 250;
        assert_eq!(pool.hand_out(100), 0, "out of what is reserved");
        pool.handed = 0;
        pool.reserved = 50;
        assert_eq!(pool.lower(), 200);
    }

    #[test]
    fn what_failed_is_taken_back_even_if_the_pool_shrank_meanwhile() {
        let mut pool = pool();
        (pool.reserved, pool.charged) = (200, 200);
        assert_eq!(pool.hand_out(150), 0);
        pool.reserved = 0;
        assert_eq!(pool.lower(), 50);
        assert_eq!(
            pool.take_back(150, 0),
            150,
            "nobody else would give it back"
        );
        assert_eq!(pool.charged, 0);
    }

    #[test]
    fn a_destroyed_pool_holds_on_until_its_last_allocation() {
        let mut pool = pool();
        (pool.handed, pool.reserved, pool.charged) = (100, 320, 320);
        pool.state = State::Destroyed;
        assert_eq!(pool.lower(), 0);
        pool.handed = 0;
        assert_eq!(pool.lower(), 320);
    }
}
