//! How calls reach the hooks: `dlsym`, linked programs, and what they must not notice.

mod deep;
pub(crate) mod dlsym;
mod elf;
mod look_up;
pub(crate) mod real;
mod relocations;
#[cfg(not(test))]
mod start;
mod weak;
