//! Project chores, callable as a library so that tests check what the commands print.

pub mod bench;
pub mod codegen;
pub mod coverage;
pub mod deb;
pub mod demo;
pub mod dist;
pub mod elf;
pub mod exports;
pub mod fuzz;
mod groups;
pub mod memory_table;
pub mod portable;
pub mod stale;
mod stand;
pub mod tidy;
pub mod workspace;
