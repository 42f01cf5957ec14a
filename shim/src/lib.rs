//! libquota_shim.so: the library preloaded into CUDA programs.
//!
//! Stands between a program and `libcuda.so.1` / `libnvidia-ml.so.1`. [`interpose`] is how calls get here, [`hooks`] which
//! ones, [`guard`] the frame around each; the rest decides.

#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "a test binary exports no hook, so that it does not interpose itself"
    )
)]

mod attach;
mod context;
mod device;
mod driver;
mod guard;
mod hook;
mod hooks;
mod inside;
mod interpose;
mod library;
mod lock;
mod memory;
mod named;
mod names;
mod numbers;
mod nvml;
mod proc_address;
mod process;
mod recent;
mod report;
mod table;
mod time;
