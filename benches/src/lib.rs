//! Benchmarks over the built artefacts; run by `cargo xtask bench`.
