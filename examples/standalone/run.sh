#!/bin/sh
# A quota with nothing but variables: no daemon, no container, no change to the program.
#
#   examples/standalone/run.sh              on this machine's GPU
#   examples/standalone/run.sh --sim        on the simulated one
#
# DIST names the folder of the built artefacts (default: target/dist, by `cargo xtask dist`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dist=${DIST:-$here/../../target/dist}
[ -f "$dist/lib/libquota_shim.so" ] || {
    echo "$0: no $dist/lib/libquota_shim.so: run \`cargo xtask dist\` first" >&2
    exit 1
}
dist=$(cd "$dist" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -O1 "$here/fill.c" -o "$work/fill" -ldl

case "${1:-}" in
--sim)
    GPU_SIM=$work/gpu
    LD_LIBRARY_PATH=$dist/sim
    export GPU_SIM LD_LIBRARY_PATH
    ;;
"") ;;
*)
    echo "$0: $1 means nothing here: with --sim it runs on the simulated GPU, without on this machine's" >&2
    exit 2
    ;;
esac

echo "without a quota:"
"$work/fill" || {
    [ "${1:-}" = --sim ] || echo "$0: no usable GPU here? \`$0 --sim\` runs it on the simulated one" >&2
    exit 1
}

echo "with 1 GiB:"
# Programs of one group share its quota; this name keeps the example apart from whatever else
# runs here. A context takes memory of the quota too; 0 leaves it out, so that all of the
# 1 GiB goes to the blocks.
GPU_QUOTA_MEMORY=1GiB GPU_QUOTA_CONTEXT=0 GPU_QUOTA_GROUP="${GROUP:-standalone-$$}" \
    LD_PRELOAD="$dist/lib/libquota_shim.so" "$work/fill"
