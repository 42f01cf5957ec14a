#!/usr/bin/env bash
# Puts NVIDIA's CUDA runtime of three generations, from its public Python wheels, into DIR/11.8,
# DIR/12 and DIR/13. Nothing is installed: the wheels are fetched and unpacked.
#
#   fetch-cudart.sh DIR
#
# Exit status 3: the wheels cannot be had here (no pip, no network).
set -euo pipefail

dir=${1:?usage: fetch-cudart.sh DIR}
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Folder and requirement.
wheels="11.8:nvidia-cuda-runtime-cu11==11.8.89 12:nvidia-cuda-runtime-cu12==12.* 13:nvidia-cuda-runtime==13.*"
for pair in $wheels; do
    name=${pair%%:*}
    ls "$dir/$name"/libcudart.so.* >/dev/null 2>&1 && continue
    python3 -m pip download --quiet --no-deps --only-binary :all: -d "$work/$name" "${pair#*:}" >&2 || {
        echo "fetch-cudart: the wheel of ${pair#*:} cannot be fetched" >&2
        exit 3
    }
    python3 -m zipfile -e "$work/$name"/*.whl "$work/$name/root"
    mkdir -p "$dir/$name"
    find "$work/$name/root" -name 'libcudart.so.*' -type f -exec cp {} "$dir/$name/" \;
    echo "fetch-cudart: $name: $(basename "$dir/$name"/libcudart.so.*) of $(basename "$work/$name"/*.whl)" >&2
done
