//! Calls that make no sense, looking, and giving everything back.

use quota_tests::workspace;

use crate::model::{DEVICES, Of, Pool};
use crate::turn::{RELEASE_THRESHOLD, Result, Turn};
use crate::world::Expect;

impl Turn<'_> {
    /// Calls that no program should make. The driver decides, and nothing changes.
    pub(super) fn nonsense(&mut self, which: u8) -> Result {
        const CALLS: [&str; 16] = [
            "cuMemAlloc_v2 0 4096",
            "cuMemAlloc_v2 &4000 0",
            "cuMemAllocPitch_v2 &4000 0 100 100 4",
            "cuMemAllocPitch_v2 &4000 &4001 100 100 3",
            "cuMemAllocManaged &4000 4096 77",
            "cuMemFree_v2 4096",
            "cuMemFreeAsync 4096 0",
            "cuMemAllocAsync 0 4096 0",
            "cuMemAllocFromPoolAsync &4000 4096 4096 0",
            "cuMemCreate &4000 2097153 {4:1,4:0,4:1,4:0,8:0,8:0} 0",
            "cuMemCreate &4000 2097152 {4:1,4:0,4:1,4:7,8:0,8:0} 0",
            "cuMemMap 2097152 2097152 0 77 0",
            "cuMemUnmap 2097152 2097152",
            "cuArrayCreate_v2 &4000 {8:0,8:4,4:1,4:1}",
            "cuArrayDestroy 4096",
            "cuCtxDestroy_v2 4096",
        ];
        let answer = self.call(CALLS[usize::from(which) % CALLS.len()]);
        self.check(&answer, Expect::Failure, true)
    }

    pub(super) fn look(&mut self) -> Result {
        let expect = self.in_context();
        let (free, total) = (self.slot(), self.slot());
        let answer = self.call(&format!("cuMemGetInfo_v2 &{free} &{total}"));
        self.check(&answer, expect, false)?;
        let model = self.model();
        let Some(context) = model.current() else {
            return Ok(());
        };
        let device = model.contexts[context].device;
        if self.model().busy {
            return Ok(());
        }
        self.world.looked(self.process, device, &answer)
    }

    /// Work of some length. What is freed behind it is held until it is done.
    pub(super) fn work(&mut self, stream: u8, micros: u16) -> Result {
        let (stream, context) = self.stream(stream);
        if context.is_none() || context != self.model().current() {
            return Ok(());
        }
        let context = context.unwrap_or(0);
        let known = self.model().kernels.iter().find(|(of, _)| *of == context);
        let kernel = match known.map(|(_, kernel)| *kernel) {
            Some(kernel) => kernel,
            None => self.load(context)?,
        };
        self.put(2, &(u64::from(micros) * 1_000).to_le_bytes());
        self.model().busy = true;
        let answer = self.call(&format!(
            "cuLaunchKernel ${kernel} 1 1 1 1 1 1 0 {stream} {{8:#2}} 0"
        ));
        self.check(&answer, Expect::Success(None), false)
    }

    fn load(&mut self, context: usize) -> std::result::Result<usize, String> {
        let path = workspace().join("gpu-sim/kernels.ptx");
        self.put(0, format!("{}\0", path.display()).as_bytes());
        self.put(1, b"sim_work\0");
        let (module, kernel) = (self.slot(), self.slot());
        let answer = self.call(&format!("cuModuleLoad &{module} #0"));
        self.check(&answer, Expect::Success(None), false)?;
        let _ = self
            .call(&format!("cuModuleGetFunction &{kernel} ${module} #1"))
            .ok();
        self.model().kernels.push((context, kernel));
        Ok(kernel)
    }

    /// Waits for everything, after which nothing is a matter of time.
    fn rest(&mut self) -> Result {
        for context in 0..self.model().contexts.len() {
            if self.model().busy && self.model().contexts[context].alive {
                self.set_current(context)?;
                let answer = self.call("cuCtxSynchronize");
                self.check(&answer, Expect::Success(None), false)?;
                self.look()?;
            }
        }
        self.model().busy = false;
        Ok(())
    }

    /// Gives everything back, in the order of the families.
    pub(super) fn clear(&mut self) -> Result {
        self.rest()?;
        while !self.model().execs.is_empty() {
            self.destroy_exec(0)?;
        }
        while let Some(memory) = self.model().orphans.pop() {
            self.free_memory(&memory)?;
        }
        while !self.model().graphs.is_empty() {
            self.destroy_graph(0)?;
        }
        for device in 0..DEVICES {
            self.trim_graphs(device)?;
        }
        while !self.model().imports.is_empty() {
            self.unshare(0)?;
        }
        while !self.model().maps.is_empty() {
            self.unmap(0, 1)?;
        }
        while let Some(which) = self.handle(0).map(|_| 0) {
            self.release(which)?;
        }
        while !self.model().ranges.is_empty() {
            self.unreserve(0)?;
        }
        while self
            .model()
            .addresses
            .iter()
            .any(|a| a.live && matches!(a.of, Of::Pool(_)))
        {
            let addresses = self.model().addresses.iter().enumerate();
            let pooled = addresses.filter(|(_, a)| a.live && matches!(a.of, Of::Pool(_)));
            let number = pooled.map(|(number, _)| number).next().unwrap_or(0);
            let slot = self.model().addresses[number].slot;
            let answer = self.call(&format!("cuMemFree_v2 ${slot}"));
            self.model().addresses[number].live = false;
            self.check(&answer, Expect::Success(None), false)?;
        }
        for pool in 0..self.model().pools.len() {
            let Pool {
                slot,
                device,
                destroyed,
                ..
            } = self.model().pools[pool];
            if pool < DEVICES {
                let _ = self
                    .call(&format!("cuDeviceSetMemPool {device} ${slot}"))
                    .ok();
                let threshold =
                    format!("cuMemPoolSetAttribute ${slot} {RELEASE_THRESHOLD} {{8:0}}");
                let _ = self.call(&threshold).ok();
            } else if !destroyed {
                self.destroy_pool(0)?;
            }
        }
        while self.model().contexts.iter().any(|c| c.alive && !c.primary) {
            self.destroy_context(0)?;
        }
        for device in 0..DEVICES {
            while self.model().retained[device] > 0 {
                self.release_primary(device)?;
            }
        }
        while !self.model().stack.is_empty() {
            let _ = self.call("cuCtxPopCurrent_v2 &4000");
            self.model().stack.pop();
        }
        Ok(())
    }

    /// What the driver gave back with the last contexts is seen now at the latest.
    pub(super) fn see(&mut self) -> Result {
        for device in 0..DEVICES {
            self.retain(device)?;
            self.set_current(device)?;
            self.look()?;
            let _ = self.call("cuCtxSetCurrent 0").ok();
            self.model().stack.pop();
            self.release_primary(device)?;
        }
        Ok(())
    }
}
