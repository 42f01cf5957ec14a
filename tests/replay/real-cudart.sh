#!/usr/bin/env bash
# Runs NVIDIA's own libcudart (11.8, 12, 13) over its own libcuda.so.1, bare and under the shim:
# without a GPU both end in an error, and it must be the same one. Fetches the libraries from public
# packages into target/.
#
# Unlike the test `cudart` by itself, which skips what was not fetched, this fails when it is
# missing. The release build in target/dist is taken where there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests/replay/fetch-driver.sh target/real-driver
tests/replay/fetch-cudart.sh target/cudart
[ ! -e target/dist/lib/libquota_shim.so ] || export GPU_QUOTA_DIST="${GPU_QUOTA_DIST:-$PWD/target/dist}"
# All of the workspace, and this test of it: then nothing is built again for other features of a dependency.
GPU_QUOTA_TEST_REAL=required cargo test --workspace --test cudart -- --nocapture --test-threads=1
