//! The shared-memory contract between the shim and the daemon, and the spellings of a quota.
//!
//! Knows no CUDA. The only place that names atomics ([`sync`]) and the only one that maps memory.

#[cfg(not(loom))]
pub mod bucket;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
pub mod map;
pub mod sync;
