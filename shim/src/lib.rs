//! libquota_shim.so: the library preloaded into CUDA programs.
