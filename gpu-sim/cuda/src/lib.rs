//! The simulated GPU: its libcuda.so.1.

#![expect(
    clippy::indexing_slicing,
    reason = "a simulator: an index out of range is a bug that should stop the program loudly"
)]

mod ctx;
mod device;
mod entry;
mod errors;
mod executor;
mod handles;
mod proc_address;
mod state;
mod symbols;
