//! The host side of the quota: runs programs under one, and explains what is enforced.
//!
//! The binary `quota-daemon` is this library behind a command line; every command is a module.

pub mod api;
pub mod cli;
pub mod client;
pub mod completions;
pub mod config;
pub mod control;
pub mod doctor;
pub mod environment;
pub mod exit;
pub mod gpu;
pub mod http;
pub mod lines;
pub mod log;
pub mod metrics;
pub mod model;
pub mod output;
pub mod peer;
pub mod reconcile;
pub mod report;
pub mod run;
pub mod serve;
pub mod sharing;
pub mod shim;
pub mod sweep;
pub mod top;
pub mod variables;
pub mod words;
