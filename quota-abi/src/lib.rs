//! The shared-memory contract between the shim and the daemon.
