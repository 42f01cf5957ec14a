//! What NVIDIA's public headers define: types, one signature per driver symbol, and the classification of every symbol.

#![no_std]
