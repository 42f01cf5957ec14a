//! The command line as people and scripts use it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod cdi;
mod commands;
mod completions;
mod doctor;
mod refusals;
mod run;
mod run_daemon;
mod serving;
mod support;
