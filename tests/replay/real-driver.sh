#!/usr/bin/env bash
# Replays the recorded look-ups against NVIDIA's own libcuda.so.1 (branches 535 and 550), bare and
# under the shim. No GPU is needed. Fetches the libraries from Debian's packages into target/.
#
# Unlike the test `replay` by itself, which skips what was not fetched, this fails when it is
# missing. The release build in target/dist is taken where there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/replay/fetch-driver.sh target/real-driver
# Every answer of cuGetProcAddress that cuda-headers claims, recorded by a client or not.
for library in target/real-driver/*/libcuda.so.1; do
    cargo xtask coverage --driver "$library"
done
[ ! -e target/dist/lib/libquota_shim.so ] || export GPU_QUOTA_DIST="${GPU_QUOTA_DIST:-$PWD/target/dist}"
# All of the workspace, and this test of it: then nothing is built again for other features of a dependency.
GPU_QUOTA_TEST_REAL=required cargo test --workspace --test replay -- --nocapture --test-threads=1
