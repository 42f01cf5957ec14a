#!/bin/sh
# Two containers under a daemon: what each sees and gets, and a limit that is raised while it runs.
#
#   examples/daemon/run.sh              on this machine's GPU
#   examples/daemon/run.sh --sim        on the simulated one
#
# No container runtime is needed: GPU_QUOTA_SOCKET stands for the directory that would be mounted. The daemon works in a
# temporary directory, and ends with the script. DIST names the folder of the built artefacts (default: target/dist, by `cargo xtask dist`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dist=${DIST:-$here/../../target/dist}
[ -f "$dist/lib/libquota_shim.so" ] || {
    echo "$0: no $dist/lib/libquota_shim.so: run \`cargo xtask dist\` first" >&2
    exit 1
}
dist=$(cd "$dist" && pwd)

case "${1:-}" in
--sim | "") ;;
*)
    echo "$0: $1 means nothing here: with --sim it runs on the simulated GPU, without on this machine's" >&2
    exit 2
    ;;
esac

work=$(mktemp -d)
daemon=
end() {
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" || :
    fi
    # Where the daemon could mount a tmpfs for its regions, it leaves it to the next daemon.
    umount "$work/state/regions" 2>/dev/null || :
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM
"${CC:-cc}" -O1 "$here/../standalone/fill.c" -o "$work/fill" -ldl

if [ "${1:-}" = --sim ]; then
    GPU_SIM=$work/gpu
    LD_LIBRARY_PATH=$dist/sim
    export GPU_SIM LD_LIBRARY_PATH
fi

GPU_QUOTA_STATE=$work/state
export GPU_QUOTA_STATE
quota() { "$dist/bin/quota-daemon" "$@"; }

quota check-config "$here/config.toml"
# By its path: a function in the background would be a shell of its own, and that would be killed instead.
"$dist/bin/quota-daemon" serve --config "$here/config.toml" 2>"$work/log" &
daemon=$!
until quota status >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || {
        cat "$work/log" >&2
        exit 1
    }
    sleep 0.1
done

# Runs a program as a process of a container.
in_container() {
    name=$1
    shift
    GPU_QUOTA_SOCKET=$GPU_QUOTA_STATE/containers/$name/attach.sock \
        LD_PRELOAD="$dist/lib/libquota_shim.so" "$@"
}

echo "alice:"
in_container alice "$work/fill"
echo "bob:"
in_container bob "$work/fill"
echo "alice, after \`quota-daemon set alice --memory 1536MiB\`:"
quota set alice --memory 1536MiB >/dev/null
in_container alice "$work/fill"
echo
quota status
echo
quota why alice
