//! Integration tests over the built artefacts: see `tests/`.
