//! Streams, and memory in their order.

use crate::model::{Address, DEVICES, Of, Pool, Stream, rounded};
use crate::turn::{Result, Turn, nth, pick};
use crate::world::{Ask, Expect};

impl Turn<'_> {
    pub(super) fn create_stream(&mut self) -> Result {
        let expect = self.in_context();
        let slot = self.slot();
        let answer = self.call(&format!("cuStreamCreate &{slot} 1"));
        if let (true, Some(context)) = (answer.success(), self.model().current()) {
            self.model().streams.push(Stream { slot, context });
        }
        self.check(&answer, expect, false)
    }

    /// A stream's argument and context: one of those that there are, or the default stream.
    pub(super) fn stream(&mut self, which: u8) -> (String, Option<usize>) {
        let model = self.model();
        match pick(which, model.streams.len() + 1) {
            Some(number) if number > 0 => {
                let stream = &model.streams[number - 1];
                (format!("${}", stream.slot), Some(stream.context))
            }
            _ => ("0".into(), model.current()),
        }
    }

    pub(super) fn destroy_stream(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().streams.len()) else {
            return Ok(());
        };
        let slot = self.model().streams.remove(number).slot;
        let answer = self.call(&format!("cuStreamDestroy_v2 ${slot}"));
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn synchronize(&mut self, which: u8) -> Result {
        let (stream, context) = self.stream(which);
        let answer = self.call(&format!("cuStreamSynchronize {stream}"));
        let expect = if context.is_some() {
            Expect::Success(None)
        } else {
            Expect::Failure
        };
        self.check(&answer, expect, false)
    }

    pub(super) fn pool(&mut self, which: u8) -> Option<usize> {
        let pools = self.model().pools.iter().enumerate();
        nth(
            which,
            pools
                .filter(|(_, pool)| !pool.destroyed)
                .map(|(number, _)| number),
        )
    }

    pub(super) fn create_pool(&mut self, device: usize) -> Result {
        let slot = self.slot();
        let properties = format!("{{4:1,4:1,4:1,4:{device},8:0,8:0,8:0,8:0,8:0,8:0,8:0,8:0,8:0}}");
        let answer = self.call(&format!("cuMemPoolCreate &{slot} {properties}"));
        self.model().pools.push(Pool {
            slot,
            device,
            destroyed: false,
            undone: false,
        });
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn destroy_pool(&mut self, which: u8) -> Result {
        let pools = self.model().pools.iter().enumerate().skip(DEVICES);
        let made = pools
            .filter(|(_, pool)| !pool.destroyed)
            .map(|(number, _)| number);
        let Some(number) = nth(which, made) else {
            return Ok(());
        };
        let Pool { slot, device, .. } = self.model().pools[number];
        // A known hole: the segment of a request that was refused and undone is given back with its pool, although the stream has
        // still to get to that.
        if self.model().busy && self.model().pools[number].undone {
            return Ok(());
        }
        let answer = self.call(&format!("cuMemPoolDestroy ${slot}"));
        let model = self.model();
        model.pools[number].destroyed = true;
        if model.current_pool[device] == number {
            model.current_pool[device] = device;
        }
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn allocate_async(&mut self, from: Option<usize>, bytes: u64, stream: u8) -> Result {
        let (stream, context) = self.stream(stream);
        let slot = self.slot();
        let model = self.model();
        let pool = from.or_else(|| {
            let device = model.contexts[context?].device;
            Some(model.current_pool[device])
        });
        let line = match from {
            None => format!("cuMemAllocAsync &{slot} {bytes} {stream}"),
            Some(pool) => format!(
                "cuMemAllocFromPoolAsync &{slot} {bytes} ${} {stream}",
                model.pools[pool].slot
            ),
        };
        let mut answer = self.call(&line);
        let (Some(pool), Some(_)) = (pool, context) else {
            return self.check(&answer, Expect::Failure, false);
        };
        let bytes = rounded(bytes);
        let device = self.model().pools[pool].device;
        let ask = Ask {
            device,
            bytes,
            exact: false,
        };
        if answer.code == Some(2) && answer.calls > 0 {
            self.model().pools[pool].undone = true;
            // Undone in the stream's order. On a busy machine the simulator's own thread may come to that only after slack was
            // trimmed: then it is there still, once, and what is left of it counts at a second try.
            let expect = Expect::Success(Some(ask));
            self.world.check(self.process, &answer, expect, false)?;
            if self.trimmed(device)? == 0 {
                return Ok(());
            }
            answer = self.call(&line);
        }
        if answer.success() {
            self.model().addresses.push(Address {
                slot,
                address: answer.out[0],
                device,
                bytes,
                of: Of::Pool(pool),
                managed: false,
                live: true,
            });
        }
        self.check(&answer, Expect::Success(Some(ask)), false)
    }

    pub(super) fn free_async(&mut self, which: u8, stream: u8) -> Result {
        let Some(number) = self.live_address(which) else {
            return Ok(());
        };
        let (stream, context) = self.stream(stream);
        let slot = self.model().addresses[number].slot;
        // What becomes of memory whose context goes before another context's stream gets to its free is not documented.
        let model = self.model();
        let of = model.addresses[number].of;
        if model.busy && matches!(of, Of::Context(own) if context != Some(own)) {
            return Ok(());
        }
        self.withdraw(|address| address.slot == slot)?;
        let answer = self.call(&format!("cuMemFreeAsync ${slot} {stream}"));
        if answer.success() {
            self.model().addresses[number].live = false;
        }
        let expect = if context.is_some() {
            Expect::Success(None)
        } else {
            Expect::Failure
        };
        self.check(&answer, expect, false)
    }
}
