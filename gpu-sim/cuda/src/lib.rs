//! The simulated GPU: its libcuda.so.1.

#![expect(
    clippy::indexing_slicing,
    reason = "a simulator: an index out of range is a bug that should stop the program loudly"
)]

mod array;
mod capture;
mod copy;
mod ctx;
mod device;
mod engine;
mod entry;
mod errors;
mod event;
mod executor;
mod external;
mod graph;
mod handles;
mod host;
mod ipc;
mod launch;
mod memory;
mod module;
mod ops;
mod order;
mod pointer;
mod pool;
mod proc_address;
mod sim_api;
mod state;
mod stream;
mod symbols;
mod vmm;

#[cfg(test)]
mod tests;
