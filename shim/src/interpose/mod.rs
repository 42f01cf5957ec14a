//! How calls reach the hooks: `dlsym`, linked programs, and what they must not notice.

pub(crate) mod dlsym;
mod elf;
mod look_up;
pub(crate) mod real;
#[cfg(not(test))]
mod start;
mod weak;
