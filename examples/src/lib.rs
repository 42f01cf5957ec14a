//! Small programs that use a shared GPU.
