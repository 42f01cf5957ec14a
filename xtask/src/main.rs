//! Project chores: codegen, coverage, dist, demo, bench, tidy.

fn main() {}
