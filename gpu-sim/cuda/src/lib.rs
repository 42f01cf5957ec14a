//! The simulated GPU: its libcuda.so.1.
