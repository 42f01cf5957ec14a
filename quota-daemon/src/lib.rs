//! The host side of the quota: runs programs under one, and explains what is enforced.
//!
//! The binary `quota-daemon` is this library behind a command line; every command is a module.

pub mod api;
pub mod attach;
pub mod cdi;
pub mod check_config;
pub mod cli;
pub mod client;
pub mod completions;
pub mod config;
pub mod control;
pub mod doctor;
pub mod environment;
pub mod exit;
pub mod gpu;
pub mod gpu_time;
pub mod http;
pub mod lines;
pub mod log;
pub mod man;
pub mod metrics;
pub mod model;
pub mod output;
pub mod peer;
pub mod proc;
pub mod ps;
pub mod reconcile;
pub mod reload;
pub mod report;
pub mod run;
pub mod serve;
pub mod set;
pub mod sharing;
pub mod shim;
pub mod show_metrics;
pub mod status;
pub mod sweep;
pub mod table;
pub mod top;
pub mod units;
pub mod variables;
pub mod why;
pub mod words;
