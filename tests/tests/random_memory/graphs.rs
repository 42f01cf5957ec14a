//! Graphs with memory nodes.

use crate::model::{BLOCK, DEVICES, Exec, Graph, GraphMemory};
use crate::turn::{Result, Turn, no_slack, pick};
use crate::world::{Ask, Expect};

/// Where the address of an allocation node stands in its parameters.
const ADDRESS: usize = 112;

/// Larger than any limit. Nodes may be as large as they like, what counts is their launch; but addresses are finite.
const LARGEST: u64 = 200 << 20;

impl Turn<'_> {
    pub(super) fn graph(&mut self) -> Result {
        let slot = self.slot();
        let answer = self.call(&format!("cuGraphCreate &{slot} 0"));
        let nodes = Vec::new();
        self.model().graphs.push(Graph { slot, nodes });
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn graph_allocation(&mut self, which: u8, device: usize, bytes: u64) -> Result {
        let Some(number) = pick(which, self.model().graphs.len()) else {
            return Ok(());
        };
        let bytes = bytes.min(LARGEST);
        let graph = self.model().graphs[number].slot;
        let (node, slot) = (self.slot(), self.slot());
        let mut parameters = [0_u8; ADDRESS + 8];
        parameters[0] = 1;
        parameters[8] = 1;
        parameters[12] = u8::try_from(device).unwrap();
        parameters[ADDRESS - 8..ADDRESS].copy_from_slice(&bytes.to_le_bytes());
        self.put(0, &parameters);
        let answer = self.call(&format!("cuGraphAddMemAllocNode &{node} ${graph} 0 0 #0"));
        if answer.success() {
            let loaded = self.call(&format!("!load {slot} #0 {ADDRESS}")).ok();
            self.model().graphs[number].nodes.push(GraphMemory {
                node,
                slot,
                address: loaded.out[0],
                device,
                bytes: bytes.next_multiple_of(BLOCK),
                freed: false,
            });
        }
        self.check(&answer, Expect::Maybe(None), false)
    }

    pub(super) fn graph_free(&mut self, which: u8, node: u8) -> Result {
        let Some(number) = pick(which, self.model().graphs.len()) else {
            return Ok(());
        };
        let graph = &self.model().graphs[number];
        let Some(memory) = pick(node, graph.nodes.len()) else {
            return Ok(());
        };
        let GraphMemory { node, slot, .. } = graph.nodes[memory];
        let graph = graph.slot;
        let line = format!("cuGraphAddMemFreeNode &4000 ${graph} {{8:${node}}} 1 ${slot}");
        let answer = self.call(&line);
        if answer.success() {
            self.model().graphs[number].nodes[memory].freed = true;
        }
        self.check(&answer, Expect::Maybe(None), false)
    }

    /// A graph of what is captured from a stream of its own.
    pub(super) fn capture(&mut self, bytes: u64, free: bool) -> Result {
        let Some(context) = self.model().current() else {
            return Ok(());
        };
        let device = self.model().contexts[context].device;
        let bytes = bytes.min(LARGEST);
        let (stream, slot, graph) = (self.slot(), self.slot(), self.slot());
        let _ = self.call(&format!("cuStreamCreate &{stream} 1")).ok();
        let _ = self
            .call(&format!("cuStreamBeginCapture_v2 ${stream} 2"))
            .ok();
        let allocated = self.call(&format!("cuMemAllocAsync &{slot} {bytes} ${stream}"));
        self.check(&allocated, Expect::Maybe(None), false)?;
        if free && allocated.success() {
            let freed = self.call(&format!("cuMemFreeAsync ${slot} ${stream}"));
            self.check(&freed, Expect::Success(None), false)?;
        }
        let ended = self.call(&format!("cuStreamEndCapture ${stream} &{graph}"));
        let answer = self.call(&format!("cuStreamDestroy_v2 ${stream}"));
        if allocated.success() && ended.success() {
            let memory = GraphMemory {
                node: slot,
                slot,
                address: allocated.out[0],
                device,
                bytes: bytes.next_multiple_of(BLOCK),
                freed: free,
            };
            let nodes = vec![memory];
            self.model().graphs.push(Graph { slot: graph, nodes });
        }
        self.check(&answer, Expect::Success(None), false)
    }

    /// Of a graph with memory nodes there can be one at a time.
    pub(super) fn instantiate(&mut self, which: u8, auto_free: bool) -> Result {
        let Some(number) = pick(which, self.model().graphs.len()) else {
            return Ok(());
        };
        let graph = &self.model().graphs[number];
        let (of, nodes) = (graph.slot, graph.nodes.clone());
        let slot = self.slot();
        let flags = u8::from(auto_free);
        let answer = self.call(&format!(
            "cuGraphInstantiateWithFlags &{slot} ${of} {flags}"
        ));
        if answer.success() {
            self.model().execs.push(Exec { slot, nodes });
        }
        self.check(&answer, Expect::Maybe(None), false)
    }

    pub(super) fn upload(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().execs.len()) else {
            return Ok(());
        };
        let slot = self.model().execs[number].slot;
        let answer = self.call(&format!("cuGraphUpload ${slot} 0"));
        self.launched(number, &answer)
    }

    pub(super) fn launch(&mut self, which: u8, stream: u8) -> Result {
        let Some(number) = pick(which, self.model().execs.len()) else {
            return Ok(());
        };
        let (stream, _) = self.stream(stream);
        let slot = self.model().execs[number].slot;
        let answer = self.call(&format!("cuGraphLaunch ${slot} {stream}"));
        self.launched(number, &answer)?;
        if !answer.success() {
            return Ok(());
        }
        // What it frees it frees on the device: wait, so that what is unused is no matter of time.
        let answer = self.call(&format!("cuStreamSynchronize {stream}"));
        self.check(&answer, Expect::Success(None), false)
    }

    /// A launch takes as much as its nodes need, at most, on each of its devices.
    fn launched(&mut self, number: usize, answer: &quota_tests::Answer) -> Result {
        let exec = &self.model().execs[number];
        let bytes = [0, 1].map(|device: usize| {
            let there = exec.nodes.iter().filter(|node| node.device == device);
            there.map(|node| node.bytes).sum::<u64>()
        });
        let ask = |device: usize| Ask {
            device,
            bytes: bytes[device],
            exact: false,
        };
        if answer.code != Some(2) {
            return self.check(answer, Expect::Maybe(Some(ask(0))), false);
        }
        let in_the_way: Vec<usize> = (0..DEVICES)
            .filter(|&device| bytes[device] > 0 && !self.fits(ask(device)))
            .collect();
        let reason = ask(in_the_way.first().copied().unwrap_or(0));
        self.world
            .check(self.process, answer, Expect::Maybe(Some(reason)), false)?;
        // One device is enough: slack of the others would have served the graph there, and stays.
        let mut slack = 0;
        for device in in_the_way {
            slack = self.trimmed(device)?;
            if slack == 0 {
                break;
            }
        }
        no_slack(slack)
    }

    /// What a launch allocated and did not free.
    pub(super) fn free_of_graph(&mut self, which: u8, node: u8) -> Result {
        let Some(number) = pick(which, self.model().execs.len()) else {
            return Ok(());
        };
        let nodes = &self.model().execs[number].nodes;
        let Some(memory) = pick(node, nodes.len()) else {
            return Ok(());
        };
        let memory = nodes[memory].clone();
        self.free_memory(&memory)
    }

    /// Frees what a launch may have allocated.
    pub(super) fn free_memory(&mut self, memory: &GraphMemory) -> Result {
        if !self.model().is_nobodys(memory.address) {
            return Ok(());
        }
        let slot = memory.slot;
        let answer = self.call(&format!("cuMemFree_v2 ${slot}"));
        self.check(&answer, Expect::Maybe(None), true)
    }

    pub(super) fn destroy_exec(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().execs.len()) else {
            return Ok(());
        };
        let Exec { slot, nodes } = self.model().execs.remove(number);
        let kept = nodes.into_iter().filter(|node| !node.freed);
        self.model().orphans.extend(kept);
        let answer = self.call(&format!("cuGraphExecDestroy ${slot}"));
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn destroy_graph(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().graphs.len()) else {
            return Ok(());
        };
        let slot = self.model().graphs.remove(number).slot;
        let answer = self.call(&format!("cuGraphDestroy ${slot}"));
        self.check(&answer, Expect::Success(None), false)
    }

    pub(super) fn trim_graphs(&mut self, device: usize) -> Result {
        let answer = self.call(&format!("cuDeviceGraphMemTrim {device}"));
        self.check(&answer, Expect::Success(None), false)
    }
}
