#!/usr/bin/env bash
# Makes docs/pictures/top.svg: what `quota-daemon top --once` prints of three tenants on one simulated GPU, as a picture.
#
#   docs/pictures/top.sh TENANT      a built `tenant` of examples/two_tenants; DIST as in examples/
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tenant=$(realpath "$1")
dist=$(realpath "${DIST:-$here/../../target/dist}")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || :; wait; rm -rf "$work"' EXIT

cat >"$work/config.toml" <<'CONFIG'
[[container]]
name = "training"
memory = "40GiB"
weight = 5
[[container]]
name = "inference"
memory = "16GiB"
compute = "30%"
[[container]]
name = "notebooks"
memory = "8GiB"
weight = 5
cap = "60%"
CONFIG
export GPU_SIM=$work/gpu GPU_SIM_DEVICES=80GiB LD_LIBRARY_PATH=$dist/sim GPU_QUOTA_STATE=$work/state
"$dist/bin/quota-daemon" serve --no-mount --config "$work/config.toml" 2>"$work/log" &
until "$dist/bin/quota-daemon" status >/dev/null 2>&1; do sleep 0.1; done

# Holds so many GiB, and keeps the GPU busy.
play() {
    { sleep 1; echo "hold $(($2 << 30))"; [ -z "${3:-}" ] || echo "$3"; echo "work 20000"; } |
        GPU_QUOTA_SOCKET=$work/state/containers/$1 LD_PRELOAD=$dist/lib/libquota_shim.so "$tenant" >/dev/null &
}
play training 31
play inference 11 overrun
sleep 12
"$dist/bin/quota-daemon" top --once --width 100 >"$work/screen"
python3 "$here/text_to_svg.py" <"$work/screen" >"$here/top.svg"
cat "$work/screen"
