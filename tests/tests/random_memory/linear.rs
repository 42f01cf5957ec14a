//! Linear, pitched and managed memory.

use quota_tests::Answer;

use crate::model::{Address, Of, rounded};
use crate::turn::{Result, Turn, nth};
use crate::world::Expect;

impl Turn<'_> {
    pub(super) fn linear(&mut self, symbol: &str, bytes: u64, more: &str) -> Result {
        let expect = self.asking(bytes);
        let slot = self.slot();
        let answer = self.call(&format!("{symbol} &{slot} {bytes}{more}"));
        self.allocated(slot, rounded(bytes), !more.is_empty(), &answer);
        self.check(&answer, expect, false)
    }

    /// What is left fits to the byte.
    pub(super) fn fill(&mut self) -> Result {
        let model = self.model();
        let Some(context) = model.current() else {
            return Ok(());
        };
        let device = model.contexts[context].device;
        match self.world.room(device) {
            0 => Ok(()),
            bytes => self.linear("cuMemAlloc_v2", bytes, ""),
        }
    }

    pub(super) fn pitched(&mut self, width: u64, height: u64) -> Result {
        let bytes = rounded(width) * height;
        let expect = self.asking(bytes);
        let (slot, pitch) = (self.slot(), self.slot());
        let answer = self.call(&format!(
            "cuMemAllocPitch_v2 &{slot} &{pitch} {width} {height} 4"
        ));
        self.allocated(slot, bytes, false, &answer);
        self.check(&answer, expect, false)
    }

    pub(super) fn allocated(&mut self, slot: usize, bytes: u64, managed: bool, answer: &Answer) {
        if !answer.success() {
            return;
        }
        let model = self.model();
        let Some(context) = model.current() else {
            return;
        };
        model.addresses.push(Address {
            slot,
            address: answer.out[0],
            device: model.contexts[context].device,
            bytes,
            of: Of::Context(context),
            managed,
            live: true,
        });
    }

    pub(super) fn live_address(&mut self, which: u8) -> Option<usize> {
        let addresses = self.model().addresses.iter().enumerate();
        nth(
            which,
            addresses.filter(|(_, a)| a.live).map(|(number, _)| number),
        )
    }

    pub(super) fn free(&mut self, which: u8) -> Result {
        let Some(number) = self.live_address(which) else {
            return Ok(());
        };
        let slot = self.model().addresses[number].slot;
        self.withdraw(|address| address.slot == slot)?;
        let answer = self.call(&format!("cuMemFree_v2 ${slot}"));
        if answer.success() {
            self.model().addresses[number].live = false;
        }
        self.check(&answer, Expect::Success(None), false)
    }

    /// Of what has been freed, or has gone with its context.
    pub(super) fn free_again(&mut self, which: u8) -> Result {
        let model = self.model();
        let addresses = model.addresses.iter().enumerate();
        let gone = addresses.filter(|(_, a)| !a.live && model.is_nothings(a.address));
        let Some(number) = nth(which, gone.map(|(number, _)| number)) else {
            return Ok(());
        };
        let slot = self.model().addresses[number].slot;
        let answer = self.call(&format!("cuMemFree_v2 ${slot}"));
        self.check(&answer, Expect::Failure, true)
    }
}
