//! The simulated GPU: state shared by every process that names the same simulation.
//!
//! A simulation is one file in `/dev/shm` that each of its processes maps. It holds the devices,
//! who holds how much of their memory, and who is dealt which part of their time. One robust mutex
//! guards it; what a killed process held is given back by whoever looks next.
//!
//! Memory: [`Member::charge`] and [`Member::refund`]. Time: [`Member::time`] and `slices`.

#![expect(
    clippy::indexing_slicing,
    reason = "a simulator: an index out of range is a bug that should stop the program loudly"
)]

mod account;
mod bandwidth;
mod card;
mod clock;
mod config;
mod hash;
mod layout;
mod member;
mod mutex;
mod objects;
mod region;
mod simulation;
mod slices;
mod snapshot;
mod timeline;

pub use account::{OutOfMemory, Usage};
pub use bandwidth::{Bandwidth, MEMORY_BUS_BITS};
pub use card::{Card, Pci, driver_release};
pub use clock::{now_ns, own_ns};
pub use config::{Config, ConfigError, DeviceSpec, parse_size, variable};
pub use layout::{MAX_DEVICES, MAX_PROCESSES};
pub use member::Member;
pub use region::OpenError;
pub use simulation::{DeviceInfo, ProcessInfo, Simulation};
pub use slices::{FOREVER, WINDOW_NS};
pub use snapshot::{DeviceAccount, ProcessAccount, Snapshot, TenantAccount, uuid_text};
pub use timeline::Timeline;
