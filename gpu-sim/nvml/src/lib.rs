//! The simulated GPU: its libnvidia-ml.so.1.
