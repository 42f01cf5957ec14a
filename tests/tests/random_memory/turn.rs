//! Carrying out steps: what a step means at that moment, what it should come to, and what it changes in the model.

use quota_tests::Answer;

use crate::model::{Context, DEVICES, Pool, Process, rounded};
use crate::step::{Step, What};
use crate::world::{Ask, Expect, LIMITS, World};

/// A failure in words.
pub(crate) type Result = std::result::Result<(), String>;

pub(crate) const RELEASE_THRESHOLD: u32 = 4;

/// Carries out a program from an empty group to an empty group.
pub(crate) fn play(world: &mut World, program: &[Step]) -> Result {
    world.trace.clear();
    for process in 0..world.processes.len() {
        begin(world, process)?;
    }
    for step in program {
        let process = usize::from(step.process);
        world.trace.push(format!("{step:?}"));
        Turn {
            world: &mut *world,
            process,
        }
        .carry_out(&step.what)?;
    }
    world.trace.push("end".into());
    for process in 0..world.processes.len() {
        Turn {
            world: &mut *world,
            process,
        }
        .clear()?;
    }
    for process in 0..world.processes.len() {
        Turn {
            world: &mut *world,
            process,
        }
        .see()?;
    }
    world.empty()
}

/// The context of the first device, current.
fn begin(world: &mut World, process: usize) -> Result {
    world.processes[process].model = Process::default();
    world.processes[process].next_slot = 0;
    let mut turn = Turn { world, process };
    for device in 0..DEVICES {
        let slot = turn.slot();
        turn.model().contexts.push(Context {
            slot,
            device,
            primary: true,
            alive: false,
        });
    }
    turn.retain(0)?;
    for device in 0..DEVICES {
        let slot = turn.slot();
        let _ = turn
            .call(&format!("cuDeviceGetDefaultMemPool &{slot} {device}"))
            .ok();
        turn.model().pools.push(Pool {
            slot,
            device,
            destroyed: false,
            undone: false,
        });
        turn.model().current_pool[device] = device;
    }
    turn.set_current(0)
}

pub(crate) struct Turn<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) process: usize,
}

/// The one that a number means, of so many.
pub(crate) fn pick(number: u8, count: usize) -> Option<usize> {
    usize::from(number).checked_rem(count)
}

pub(crate) fn nth(number: u8, mut all: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    all.nth(pick(number, all.clone().count())?)
}

/// What is to be found after a refusal.
pub(crate) fn no_slack(bytes: u64) -> Result {
    match bytes {
        0 => Ok(()),
        more => Err(format!(
            "refused, although {more} bytes of slack could be trimmed"
        )),
    }
}

impl Turn<'_> {
    pub(super) fn model(&mut self) -> &mut Process {
        &mut self.world.processes[self.process].model
    }

    pub(super) fn slot(&mut self) -> usize {
        let member = &mut self.world.processes[self.process];
        member.next_slot += 1;
        member.next_slot - 1
    }

    pub(super) fn call(&mut self, line: &str) -> Answer {
        self.world.call(self.process, line)
    }

    pub(super) fn put(&mut self, buffer: u32, bytes: &[u8]) {
        self.world.put(self.process, buffer, bytes);
    }

    pub(super) fn fits(&self, ask: Ask) -> bool {
        self.world.fits(ask)
    }

    /// The simplest of all: a call, what should come of it, and nothing changes but what has been said.
    pub(super) fn check(&mut self, answer: &Answer, expect: Expect, waits: bool) -> Result {
        self.world.check(self.process, answer, expect, waits)?;
        match expect {
            Expect::Success(Some(ask)) | Expect::Maybe(Some(ask)) if answer.code == Some(2) => {
                // What can never fit is refused without ado.
                if ask.bytes <= LIMITS[ask.device] {
                    self.nothing_to_trim(ask.device)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Before anybody is refused, the process's own pools give back what they hold without need.
    pub(super) fn nothing_to_trim(&mut self, device: usize) -> Result {
        no_slack(self.trimmed(device)?)
    }

    /// Trims the process's pools and its graphs' memory on a device: how much that gave. 0 where frees may come meanwhile.
    pub(super) fn trimmed(&mut self, device: usize) -> std::result::Result<u64, String> {
        let before = self.world.reserve(self.process, device);
        for number in 0..self.model().pools.len() {
            let pool = &self.model().pools[number];
            if pool.destroyed || pool.device != device {
                continue;
            }
            let slot = pool.slot;
            let answer = self.call(&format!("cuMemPoolTrimTo ${slot} 0"));
            self.world
                .check(self.process, &answer, Expect::Success(None), false)?;
        }
        let answer = self.call(&format!("cuDeviceGraphMemTrim {device}"));
        self.world
            .check(self.process, &answer, Expect::Success(None), false)?;
        if self.model().busy {
            return Ok(0);
        }
        Ok(before - self.world.reserve(self.process, device))
    }

    pub(super) fn carry_out(&mut self, what: &What) -> Result {
        match *what {
            What::RetainPrimary { device } => self.retain(device.into()),
            What::ReleasePrimary { device } => self.release_primary(device.into()),
            What::ResetPrimary { device } => self.reset_primary(device.into()),
            What::CreateContext { device } => self.create_context(device.into()),
            What::DestroyContext { which } => self.destroy_context(which),
            What::SetCurrent { which } => {
                let contexts = self.model().contexts.iter().enumerate();
                let alive = contexts.filter(|(_, c)| c.alive).map(|(number, _)| number);
                let Some(context) = nth(which, alive) else {
                    return Ok(());
                };
                self.set_current(context)
            }
            What::NoCurrent => {
                let answer = self.call("cuCtxSetCurrent 0");
                self.model().stack.pop();
                self.check(&answer, Expect::Success(None), false)
            }
            What::Linear { bytes } => self.linear("cuMemAlloc_v2", bytes, ""),
            What::Managed { bytes } => self.linear("cuMemAllocManaged", bytes, " 1"),
            What::Fill => self.fill(),
            What::FillPhysical { device } => self.fill_physical(device),
            What::Pitched { width, height } => self.pitched(width, height),
            What::Free { which } => self.free(which),
            What::FreeAgain { which } => self.free_again(which),
            What::CreateStream => self.create_stream(),
            What::DestroyStream { which } => self.destroy_stream(which),
            What::Synchronize { which } => self.synchronize(which),
            What::SynchronizeContext => {
                let expect = self.in_context();
                let answer = self.call("cuCtxSynchronize");
                self.check(&answer, expect, false)
            }
            What::CreatePool { device } => self.create_pool(device.into()),
            What::DestroyPool { which } => self.destroy_pool(which),
            What::TrimPool { which, keep } => {
                let Some(pool) = self.pool(which) else {
                    return Ok(());
                };
                let slot = self.model().pools[pool].slot;
                let answer = self.call(&format!("cuMemPoolTrimTo ${slot} {keep}"));
                self.check(&answer, Expect::Success(None), false)
            }
            What::Threshold { which, bytes } => {
                let Some(pool) = self.pool(which) else {
                    return Ok(());
                };
                let slot = self.model().pools[pool].slot;
                let line =
                    format!("cuMemPoolSetAttribute ${slot} {RELEASE_THRESHOLD} {{8:{bytes}}}");
                let answer = self.call(&line);
                self.check(&answer, Expect::Success(None), false)
            }
            What::UsePool { which } => {
                let Some(number) = self.pool(which) else {
                    return Ok(());
                };
                let Pool { slot, device, .. } = self.model().pools[number];
                let answer = self.call(&format!("cuDeviceSetMemPool {device} ${slot}"));
                self.model().current_pool[device] = number;
                self.check(&answer, Expect::Success(None), false)
            }
            What::Async { bytes, stream } => self.allocate_async(None, bytes, stream),
            What::FromPool {
                which,
                bytes,
                stream,
            } => {
                let Some(pool) = self.pool(which) else {
                    return Ok(());
                };
                self.allocate_async(Some(pool), bytes, stream)
            }
            What::FreeAsync { which, stream } => self.free_async(which, stream),
            What::CreatePhysical { place, blocks } => self.create_physical(place, blocks),
            What::Release { which } => self.release(which),
            What::Reserve { blocks } => self.reserve(blocks),
            What::Unreserve { which } => self.unreserve(which),
            What::Map {
                which,
                range,
                at,
                blocks,
            } => self.map(which, range, at, blocks),
            What::Unmap { which, count } => self.unmap(which, count),
            What::RetainMapped { which } => self.retain_mapped(which),
            What::Array {
                width,
                height,
                format,
            } => self.flat_array(width, height, format.into()),
            What::Volume {
                width,
                height,
                depth,
                layered,
                format,
            } => self.volume([width, height, depth], layered, format.into()),
            What::Mipmaps {
                width,
                height,
                depth,
                format,
                levels,
            } => self.mipmaps([width, height, depth], format.into(), levels),
            What::DestroyArray { which } => self.destroy_array(which),
            What::Graph => self.graph(),
            What::GraphAllocation {
                which,
                device,
                bytes,
            } => self.graph_allocation(which, device.into(), bytes),
            What::GraphFree { which, node } => self.graph_free(which, node),
            What::Capture { bytes, free } => self.capture(bytes, free),
            What::Instantiate { which, auto_free } => self.instantiate(which, auto_free),
            What::Upload { which } => self.upload(which),
            What::Launch { which, stream } => self.launch(which, stream),
            What::FreeOfGraph { which, node } => self.free_of_graph(which, node),
            What::DestroyExec { which } => self.destroy_exec(which),
            What::DestroyGraph { which } => self.destroy_graph(which),
            What::TrimGraphs { device } => self.trim_graphs(device.into()),
            What::Share { which } => self.share(which),
            What::Unshare { which } => self.unshare(which),
            What::Work { stream, micros } => self.work(stream, micros),
            What::Nonsense { which } => self.nonsense(which),
            What::Look => self.look(),
        }
    }

    /// What should come of a call that needs a current context and takes nothing.
    pub(super) fn in_context(&mut self) -> Expect {
        match self.model().current() {
            Some(_) => Expect::Success(None),
            None => Expect::Failure,
        }
    }

    /// What should come of a request for bytes of the current context's device.
    pub(super) fn asking(&mut self, bytes: u64) -> Expect {
        let model = self.model();
        match model.current() {
            Some(context) => Expect::Success(Some(Ask {
                device: model.contexts[context].device,
                bytes: rounded(bytes),
                exact: true,
            })),
            None => Expect::Failure,
        }
    }
}
