//! The simulated GPU: its libnvidia-ml.so.1.
//!
//! It reads the same shared simulation as the simulated libcuda, needs no CUDA in its process, and
//! knows nothing of `CUDA_VISIBLE_DEVICES`. What goes wrong on purpose is said by `GPU_SIM_FAULTS`
//! (see the README).

mod accounting;
mod clocks;
mod device;
mod entry;
mod faults;
mod identity;
mod links;
mod memory;
mod mig;
mod modes;
mod processes;
mod sensors;
mod session;
mod since;
mod stubs;
mod system;
mod text;
mod utilization;

#[cfg(test)]
mod tests;
