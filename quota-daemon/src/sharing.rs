//! Who gets how much of a device's time: own rates, loans of what others leave, and whose turn it is.
//!
//! A [`Controller`] is told what the containers of each device wrote about themselves, and writes their policy rows. It reads
//! no clock and no file, so that hours of sharing are tested in a second.
//!
//! Shares are of the whole device, by weight over all containers that are *declared* on it with one: 5, 5 and 10 have 25 %,
//! 25 % and 50 %, whether or not the others run, and however much hard limits may take. A share is a container's own at any
//! time, without asking. What idle ones leave is lent to the active ones by weight, for 100 ms at a time; see [`lend`].
//! Hard limits are caps, not reservations: of what is to lend, only what they are measured to use is kept for them.
//!
//! # What a container can gain by writing nonsense
//! Nothing that is another's own. A container that claims to be busy is lent its part by weight, which it could have by being
//! busy. One that claims to be idle loses its loans. One with a hard limit can claim to use as much as its limit, which it
//! may use.

mod activity;
mod controller;
mod known;
mod lend;
mod meter;
mod own;
mod reading;
mod rows;
mod turns;

#[cfg(test)]
mod fluid;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

pub use controller::{Controller, DeviceView, Member, Seen, Settings};
pub use own::own_ppm;
pub use reading::Reading;

/// One millisecond in nanoseconds.
const MS: u64 = 1_000_000;
/// All of a device's time that is ever given, in ppm. A million would be no limit, and nothing would be counted.
const WHOLE: u32 = 999_999;
