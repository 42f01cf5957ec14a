//! What a random program is made of. A step names what it works on by a number that is taken modulo what there is at that
//! moment, so that a program stays one when steps are left out of it.

/// One step of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which process.
    pub(crate) process: u8,
    /// What it does.
    pub(crate) what: What,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    RetainPrimary {
        device: u8,
    },
    ReleasePrimary {
        device: u8,
    },
    ResetPrimary {
        device: u8,
    },
    CreateContext {
        device: u8,
    },
    DestroyContext {
        which: u8,
    },
    SetCurrent {
        which: u8,
    },
    NoCurrent,
    Linear {
        bytes: u64,
    },
    Pitched {
        width: u64,
        height: u64,
    },
    /// Linear memory, exactly as much as is left.
    Fill,
    /// The same of physical memory, in whole blocks.
    FillPhysical {
        device: u8,
    },
    Managed {
        bytes: u64,
    },
    Free {
        which: u8,
    },
    FreeAgain {
        which: u8,
    },
    CreateStream,
    DestroyStream {
        which: u8,
    },
    Synchronize {
        which: u8,
    },
    SynchronizeContext,
    CreatePool {
        device: u8,
    },
    DestroyPool {
        which: u8,
    },
    TrimPool {
        which: u8,
        keep: u64,
    },
    Threshold {
        which: u8,
        bytes: u64,
    },
    UsePool {
        which: u8,
    },
    Async {
        bytes: u64,
        stream: u8,
    },
    FromPool {
        which: u8,
        bytes: u64,
        stream: u8,
    },
    FreeAsync {
        which: u8,
        stream: u8,
    },
    CreatePhysical {
        place: u8,
        blocks: u64,
    },
    Release {
        which: u8,
    },
    Reserve {
        blocks: u64,
    },
    Unreserve {
        which: u8,
    },
    Map {
        which: u8,
        range: u8,
        at: u8,
        blocks: u64,
    },
    Unmap {
        which: u8,
        count: u8,
    },
    RetainMapped {
        which: u8,
    },
    Array {
        width: u64,
        height: u64,
        format: u8,
    },
    Volume {
        width: u64,
        height: u64,
        depth: u64,
        layered: bool,
        format: u8,
    },
    Mipmaps {
        width: u64,
        height: u64,
        depth: u64,
        format: u8,
        levels: u32,
    },
    DestroyArray {
        which: u8,
    },
    Graph,
    GraphAllocation {
        which: u8,
        device: u8,
        bytes: u64,
    },
    GraphFree {
        which: u8,
        node: u8,
    },
    Capture {
        bytes: u64,
        free: bool,
    },
    Instantiate {
        which: u8,
        auto_free: bool,
    },
    Upload {
        which: u8,
    },
    Launch {
        which: u8,
        stream: u8,
    },
    FreeOfGraph {
        which: u8,
        node: u8,
    },
    DestroyExec {
        which: u8,
    },
    DestroyGraph {
        which: u8,
    },
    TrimGraphs {
        device: u8,
    },
    Share {
        which: u8,
    },
    Unshare {
        which: u8,
    },
    Work {
        stream: u8,
        micros: u16,
    },
    Nonsense {
        which: u8,
    },
    Look,
}

/// How many formats of arrays there are to choose from.
pub(crate) const FORMATS: u8 = 5;
