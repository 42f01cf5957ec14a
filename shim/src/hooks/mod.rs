//! Every hooked function, by family: one `hooks!` entry each, read top to bottom. What a hook decides lives elsewhere.

#![expect(
    non_snake_case,
    non_upper_case_globals,
    reason = "NVIDIA's identifiers, under which the functions are exported"
)]

pub(crate) mod array;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod copy_batch;
pub(crate) mod copy_shaped;
pub(crate) mod external;
pub(crate) mod fill;
pub(crate) mod graph;
pub(crate) mod graph_launch;
pub(crate) mod graph_memory;
pub(crate) mod init;
pub(crate) mod ipc;
pub(crate) mod launch;
pub(crate) mod lifetime;
pub(crate) mod memory;
pub(crate) mod nvml;
pub(crate) mod pool;
pub(crate) mod view;
pub(crate) mod vmm;
pub(crate) mod wait;

use crate::hook::Entry;
use crate::names::Names;

/// The tables of the driver's functions.
pub(crate) static DRIVER: &[&[Entry]] = &[
    init::HOOKS,
    context::HOOKS,
    memory::HOOKS,
    pool::HOOKS,
    ipc::HOOKS,
    vmm::HOOKS,
    array::HOOKS,
    external::HOOKS,
    view::HOOKS,
    launch::HOOKS,
    graph::HOOKS,
    graph_launch::HOOKS,
    graph_memory::HOOKS,
    fill::HOOKS,
    copy::HOOKS,
    copy_shaped::HOOKS,
    copy_batch::HOOKS,
    capture::HOOKS,
    wait::HOOKS,
    lifetime::HOOKS,
];

/// The tables of NVML's functions.
pub(crate) static NVML: &[&[Entry]] = &[nvml::HOOKS];

/// All of them by exact name.
pub(crate) static NAMES: Names = Names::build(&[DRIVER, NVML]);
