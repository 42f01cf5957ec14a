#!/usr/bin/env bash
# The library for aarch64: built, compared with the hooks name by name, held to glibc 2.17, and read as an ELF file; where an emulator
# and a C library for that machine are (qemu-user-static, gcc-aarch64-linux-gnu), a program of that machine loads it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
triple=aarch64-unknown-linux-gnu

if [ ! -d "$(rustc --print target-libdir --target $triple)" ] && ! rustup target add $triple; then
    echo "skipped: Rust's library for $triple cannot be had here"
    exit 0
fi
cargo run --quiet --package xtask -- dist --portable --target aarch64
library=target/dist-aarch64/lib/libquota_shim.so
cargo run --quiet --package xtask -- exports --library $library --portable
readelf -h $library | grep -q 'Machine: *AArch64'

if command -v qemu-aarch64-static >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    printf '#include <stdio.h>\nint main(void) { return puts("runs") < 0; }\n' >"$work/program.c"
    aarch64-linux-gnu-gcc "$work/program.c" -o "$work/program"
    said=$(qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$PWD/$library" "$work/program" 2>&1)
    [ "$said" = runs ] || { echo "FAILED: under the emulator: $said"; exit 1; }
    echo "ok: loads under the emulator"
else
    echo "skipped: no qemu-aarch64-static with aarch64-linux-gnu-gcc"
fi
