//! What NVIDIA's public headers define: types, one signature per driver symbol, and the classification of every symbol.
//!
//! The types and signatures are generated (`cargo xtask codegen`) from the headers in NVIDIA's public wheels. They keep
//! NVIDIA's identifiers, so what is read here can be looked up in NVIDIA's documentation under the same name. C enums are
//! newtypes over integers, never Rust enums: a newer driver may answer a value that no header has yet.

#![no_std]

/// Types and constants of the driver API.
#[path = "generated/driver.rs"]
#[expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "NVIDIA's identifiers, documented by NVIDIA"
)]
pub mod driver;

/// One function type per exported driver symbol, under the symbol's name.
#[path = "generated/fns.rs"]
#[expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "NVIDIA's identifiers, documented by NVIDIA"
)]
pub mod fns;

/// Types, constants and functions ([`nvml::fns`]) of NVML, and the sorted names of all functions.
#[path = "generated/nvml.rs"]
#[expect(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "NVIDIA's identifiers, documented by NVIDIA"
)]
pub mod nvml;

pub mod classify;
pub mod handles;
pub mod proc_address;
pub mod result;
pub mod symbols;
