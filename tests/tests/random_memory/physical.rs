//! Physical memory, addresses, and mappings of the one into the other.

use crate::model::{BLOCK, DEVICES, Map, Physical, Range};
use crate::turn::{Result, Turn, nth, pick};
use crate::world::{Ask, Expect};

impl Turn<'_> {
    pub(super) fn create_physical(&mut self, place: u8, blocks: u64) -> Result {
        let device = Some(usize::from(place)).filter(|device| *device < DEVICES);
        let location = match device {
            Some(device) => format!("4:1,4:{device}"),
            None => "4:3,4:0".into(),
        };
        let bytes = blocks * BLOCK;
        let slot = self.slot();
        let answer = self.call(&format!(
            "cuMemCreate &{slot} {bytes} {{4:1,4:1,{location},8:0,8:0}} 0"
        ));
        if answer.success() {
            self.model().physical.push(Physical {
                slot,
                device,
                blocks,
                handles: 1,
            });
        }
        let ask = device.map(|device| Ask {
            device,
            bytes,
            exact: true,
        });
        self.check(&answer, Expect::Success(ask), false)
    }

    pub(super) fn fill_physical(&mut self, device: u8) -> Result {
        match self.world.room(device.into()) / BLOCK {
            0 => Ok(()),
            blocks => self.create_physical(device, blocks),
        }
    }

    pub(super) fn handle(&mut self, which: u8) -> Option<usize> {
        let physical = self.model().physical.iter().enumerate();
        nth(
            which,
            physical
                .filter(|(_, p)| p.handles > 0)
                .map(|(number, _)| number),
        )
    }

    pub(super) fn release(&mut self, which: u8) -> Result {
        let Some(number) = self.handle(which) else {
            return Ok(());
        };
        let slot = self.model().physical[number].slot;
        let answer = self.call(&format!("cuMemRelease ${slot}"));
        self.model().physical[number].handles -= 1;
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn reserve(&mut self, blocks: u64) -> Result {
        let slot = self.slot();
        let answer = self.call(&format!(
            "cuMemAddressReserve &{slot} {} 0 0 0",
            blocks * BLOCK
        ));
        if answer.success() {
            let address = answer.out[0];
            self.model().ranges.push(Range {
                slot,
                address,
                blocks,
            });
        }
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn unreserve(&mut self, which: u8) -> Result {
        let model = self.model();
        let Some(number) = pick(which, model.ranges.len()) else {
            return Ok(());
        };
        let Range {
            slot,
            address,
            blocks,
        } = model.ranges[number];
        let inside = |map: &Map| (address..address + blocks * BLOCK).contains(&map.address);
        let mapped = model.maps.iter().any(inside);
        let answer = self.call(&format!("cuMemAddressFree ${slot} {}", blocks * BLOCK));
        if mapped {
            return self.check(&answer, Expect::Failure, false);
        }
        self.model().ranges.remove(number);
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn map(&mut self, which: u8, range: u8, at: u8, blocks: u64) -> Result {
        let Some(physical) = self.handle(which) else {
            return Ok(());
        };
        let Some(range) = pick(range, self.model().ranges.len()) else {
            return Ok(());
        };
        let model = self.model();
        let Range {
            address,
            blocks: room,
            ..
        } = model.ranges[range];
        let Physical {
            slot,
            blocks: whole,
            ..
        } = model.physical[physical];
        let blocks = (blocks - 1) % whole + 1;
        let at = u64::from(at) % room;
        let start = address + at * BLOCK;
        let end = start + blocks * BLOCK;
        let overlaps = |map: &Map| map.address < end && start < map.address + map.blocks * BLOCK;
        let fits = at + blocks <= room && !model.maps.iter().any(overlaps);
        let answer = self.call(&format!("cuMemMap {start} {} 0 ${slot} 0", blocks * BLOCK));
        if !fits {
            return self.check(&answer, Expect::Failure, false);
        }
        self.model().maps.push(Map {
            address: start,
            blocks,
            physical,
        });
        self.check(&answer, Expect::Success(None), false)
    }

    /// As many neighbours at once as there are of those that were asked for.
    pub(super) fn unmap(&mut self, which: u8, count: u8) -> Result {
        let model = self.model();
        model.maps.sort_by_key(|map| map.address);
        let Some(first) = pick(which, model.maps.len()) else {
            return Ok(());
        };
        let start = model.maps[first].address;
        let mut end = start;
        let mut last = first;
        while last < model.maps.len()
            && last < first + usize::from(count)
            && model.maps[last].address == end
        {
            end += model.maps[last].blocks * BLOCK;
            last += 1;
        }
        let answer = self.call(&format!("cuMemUnmap {start} {}", end - start));
        self.model().maps.drain(first..last);
        self.check(&answer, Expect::Success(None), true)
    }

    pub(super) fn retain_mapped(&mut self, which: u8) -> Result {
        let Some(map) = pick(which, self.model().maps.len()) else {
            return Ok(());
        };
        let Map {
            address, physical, ..
        } = self.model().maps[map];
        let slot = self.slot();
        let answer = self.call(&format!(
            "cuMemRetainAllocationHandle &{slot} {}",
            address + 4096
        ));
        let physical = &mut self.model().physical[physical];
        physical.slot = slot;
        physical.handles += 1;
        self.check(&answer, Expect::Success(None), false)
    }
}
