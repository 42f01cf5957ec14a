//! Memory of the other process: opened by its handle, charged once.

use crate::model::{Import, Of};
use crate::turn::{Result, Turn, nth, pick};
use crate::world::Expect;

impl Turn<'_> {
    /// Opens linear memory of the other process. It is charged to its owner already.
    pub(super) fn share(&mut self, which: u8) -> Result {
        let (here, there) = (self.process, 1 - self.process);
        let Some(context) = self.model().current() else {
            return Ok(());
        };
        let mut owner = Turn {
            world: &mut *self.world,
            process: there,
        };
        if owner.model().current().is_none() {
            return Ok(());
        }
        let addresses = owner.model().addresses.iter().enumerate();
        let linear =
            addresses.filter(|(_, a)| a.live && !a.managed && matches!(a.of, Of::Context(_)));
        let Some(number) = nth(which, linear.map(|(number, _)| number)) else {
            return Ok(());
        };
        let from = (there, number);
        let slot = owner.model().addresses[number].slot;
        let answer = owner.call(&format!("cuIpcGetMemHandle #1 ${slot}"));
        owner.check(&answer, Expect::Success(None), false)?;
        self.world.copy_buffer(there, here, 1);
        // Once in each process: a second opening gives the same address.
        if self
            .model()
            .imports
            .iter()
            .any(|import| import.from == from)
        {
            return Ok(());
        }
        let slot = self.slot();
        let answer = self.call(&format!("*cuIpcOpenMemHandle_v2 &{slot} #1 1"));
        if answer.success() {
            self.model().imports.push(Import {
                slot,
                context,
                from,
            });
        }
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn unshare(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().imports.len()) else {
            return Ok(());
        };
        let slot = self.model().imports.remove(number).slot;
        let answer = self.call(&format!("cuIpcCloseMemHandle ${slot}"));
        self.check(&answer, Expect::Success(None), true)
    }

    /// Frees nothing under the feet of the other process, which the documentation calls undefined: it closes first.
    pub(super) fn withdraw(&mut self, goes: impl Fn(&crate::model::Address) -> bool) -> Result {
        for process in 0..self.world.processes.len() {
            while let Some(number) = self.held_by(process, &goes) {
                let mut other = Turn {
                    world: &mut *self.world,
                    process,
                };
                let slot = other.model().imports.remove(number).slot;
                let answer = other.call(&format!("cuIpcCloseMemHandle ${slot}"));
                other.check(&answer, Expect::Success(None), true)?;
            }
        }
        Ok(())
    }

    fn held_by(
        &mut self,
        process: usize,
        goes: &impl Fn(&crate::model::Address) -> bool,
    ) -> Option<usize> {
        let here = self.process;
        let mine = &self.world.processes[here].model.addresses;
        let imports = self.world.processes[process].model.imports.iter();
        imports
            .enumerate()
            .find(|(_, import)| import.from.0 == here && goes(&mine[import.from.1]))
            .map(|(number, _)| number)
    }
}
