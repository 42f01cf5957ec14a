//! Contexts: made, retained, destroyed, current.

use crate::model::{Context, Of};
use crate::turn::{Result, Turn, nth};
use crate::world::{Ask, CONTEXT, Expect};

impl Turn<'_> {
    /// What a new context asks for: the charge for all of the process's contexts there, if it is the first.
    pub(super) fn first_context(&mut self, device: usize) -> Option<Ask> {
        (!self.model().has_contexts(device)).then_some(Ask {
            device,
            bytes: CONTEXT,
            exact: true,
        })
    }

    pub(super) fn retain(&mut self, device: usize) -> Result {
        let ask = self.first_context(device);
        let slot = self.model().contexts[device].slot;
        let answer = self.call(&format!("cuDevicePrimaryCtxRetain &{slot} {device}"));
        if answer.success() {
            self.model().retained[device] += 1;
            self.model().contexts[device].alive = true;
        }
        self.check(&answer, Expect::Success(ask), false)
    }

    pub(super) fn release_primary(&mut self, device: usize) -> Result {
        let retained = self.model().retained[device];
        if retained == 1 {
            self.withdraw(|address| address.of == Of::Context(device))?;
        }
        let answer = self.call(&format!("cuDevicePrimaryCtxRelease_v2 {device}"));
        if answer.success() {
            self.model().retained[device] = retained.saturating_sub(1);
            if retained == 1 {
                self.model().end(device);
            }
        }
        let expect = if retained > 0 {
            Expect::Success(None)
        } else {
            Expect::Failure
        };
        self.check(&answer, expect, false)
    }

    pub(super) fn reset_primary(&mut self, device: usize) -> Result {
        self.withdraw(|address| address.of == Of::Context(device))?;
        let answer = self.call(&format!("cuDevicePrimaryCtxReset_v2 {device}"));
        if answer.success() {
            self.model().end(device);
        }
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn create_context(&mut self, device: usize) -> Result {
        let ask = self.first_context(device);
        let slot = self.slot();
        let answer = self.call(&format!("cuCtxCreate_v2 &{slot} 0 {device}"));
        if answer.success() {
            let model = self.model();
            model.contexts.push(Context {
                slot,
                device,
                primary: false,
                alive: true,
            });
            model.stack.push(model.contexts.len() - 1);
        }
        self.check(&answer, Expect::Success(ask), false)
    }

    pub(super) fn destroy_context(&mut self, which: u8) -> Result {
        let contexts = self.model().contexts.iter().enumerate();
        let made = contexts
            .filter(|(_, c)| c.alive && !c.primary)
            .map(|(number, _)| number);
        let Some(number) = nth(which, made) else {
            return Ok(());
        };
        let slot = self.model().contexts[number].slot;
        self.withdraw(|address| address.of == Of::Context(number))?;
        let answer = self.call(&format!("cuCtxDestroy_v2 ${slot}"));
        let model = self.model();
        model.end(number);
        if model.stack.last() == Some(&number) {
            model.stack.pop();
        }
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn set_current(&mut self, context: usize) -> Result {
        let slot = self.model().contexts[context].slot;
        let answer = self.call(&format!("cuCtxSetCurrent ${slot}"));
        self.model().stack.pop();
        self.model().stack.push(context);
        self.check(&answer, Expect::Success(None), false)
    }
}
