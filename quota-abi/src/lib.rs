//! The shared-memory contract between the shim and the daemon, and the spellings of a quota.
//!
//! Knows no CUDA. The only place that names atomics ([`sync`]) and the only one that maps memory.

#[cfg(not(loom))]
pub mod bucket;
#[cfg(not(loom))]
pub mod cgroups;
#[cfg(not(loom))]
pub mod devices;
#[cfg(not(loom))]
pub mod events;
#[cfg(not(loom))]
pub mod exports;
#[cfg(not(loom))]
pub mod group;
#[cfg(not(loom))]
pub mod layout;
pub mod ledger;
#[cfg(not(loom))]
pub mod life;
#[cfg(not(loom))]
pub mod map;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
pub mod settings;
#[cfg(not(loom))]
pub mod slots;
pub mod spelling;
pub mod sync;
#[cfg(not(loom))]
pub mod wire;
