//! On which streams a pool's memory has been freed: a pool that is destroyed before they have got there is held for so long.

use cuda_headers::driver::CUstream;

use super::{Default, PER_THREAD_STREAM};

/// Streams that are remembered for a pool.
pub(in crate::memory) const STREAMS: usize = 4;

/// A few streams by handle; `None` where there is room.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Streams([Option<usize>; STREAMS]);

impl Streams {
    pub(super) const NONE: Self = Self([None; STREAMS]);

    /// Remembers one more. What finds no room is forgotten, and so is a thread's own default stream: another thread that
    /// names it means its own.
    pub(super) fn add(&mut self, stream: CUstream, default: Default) {
        let handle = stream.0.expose_provenance();
        let own = handle == PER_THREAD_STREAM || (handle == 0 && default == Default::PerThread);
        if own || self.0.contains(&Some(handle)) {
            return;
        }
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(handle);
        }
    }

    /// A stream is destroyed.
    pub(super) fn remove(&mut self, stream: CUstream) {
        let handle = Some(stream.0.addr());
        for place in self.0.iter_mut().filter(|place| **place == handle) {
            *place = None;
        }
    }

    pub(super) fn all(self) -> impl Iterator<Item = CUstream> {
        let stream = |handle| CUstream(core::ptr::with_exposed_provenance_mut(handle));
        self.0.into_iter().flatten().map(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: usize) -> CUstream {
        CUstream(core::ptr::without_provenance_mut(number))
    }

    #[test]
    fn streams_are_remembered_once_and_forgotten_when_they_go() {
        let mut streams = Streams::NONE;
        for number in [16, 32, 16, 0, 2] {
            streams.add(stream(number), Default::Legacy);
        }
        streams.add(stream(0), Default::PerThread);
        streams.remove(stream(32));
        let left: Vec<usize> = streams.all().map(|stream| stream.0.addr()).collect();
        assert_eq!(left, [16, 0]);
    }
}
