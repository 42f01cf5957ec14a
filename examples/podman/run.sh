#!/bin/sh
# Two containers on one GPU: each gets its quota by one flag, and so does what is started in it later.
#
#   examples/podman/run.sh IMAGE     on this machine's GPU. Its devices come from NVIDIA's container toolkit
#                                    (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)
#   examples/podman/run.sh --sim     on the simulated one; needs no image: this machine's own files, with a layer over them
#
# Run it as root. The daemon works in a temporary directory and ends with the script. DIST names the folder of the built artefacts (default:
# target/dist, by `cargo xtask dist`), PODMAN the podman, with flags if need be.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dist=${DIST:-$here/../../target/dist}
podman=${PODMAN:-podman --runtime runc}
[ -f "$dist/lib/libquota_shim.so" ] || {
    echo "$0: no $dist/lib/libquota_shim.so: run \`cargo xtask dist\` first" >&2
    exit 1
}
dist=$(cd "$dist" && pwd)
[ $# -eq 1 ] || {
    echo "$0: name an image, or --sim" >&2
    exit 2
}
[ "$(id -u)" = 0 ] || {
    echo "$0: be root: the daemon publishes in /var/run/cdi" >&2
    exit 1
}

work=$(mktemp -d)
chmod 755 "$work"
daemon=
running=
end() {
    [ -z "$running" ] || $podman rm --force --time=0 "$running" >/dev/null || :
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" || :
    fi
    # A daemon that ends leaves its devices, and its file system, to the next one.
    rm -f "/var/run/cdi/example-$$.gpu-quota.io-container_"*.json
    umount "$work/state/regions" 2>/dev/null || :
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM
"${CC:-cc}" -O1 "$here/../standalone/fill.c" -o "$work/fill" -ldl

# A kind of its own keeps the example apart from a daemon that may run here.
kind=example-$$.gpu-quota.io/container
mkdir "$work/conf"
cp "$here/config.toml" "$work/conf/"
printf '[cdi]\nkind = "%s"\nlibrary = "%s"\n' "$kind" "$dist/lib/libquota_shim.so" >"$work/conf/kind.toml"

# What each container has beside its quota.
set -- "$1" --rm --network=none --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --volume "$work:$work"
if [ "$1" = --sim ]; then
    GPU_SIM=$work/gpu
    export GPU_SIM
    libraries=/usr/lib/$(uname -m)-linux-gnu
    set -- "$@" --env GPU_SIM --volume "$dist/sim/libcuda.so.1:$libraries/libcuda.so.1:ro"
else
    set -- "$@" --device nvidia.com/gpu=all
fi
image=$1
shift

GPU_QUOTA_STATE=$work/state
export GPU_QUOTA_STATE
quota() { "$dist/bin/quota-daemon" "$@"; }
LD_LIBRARY_PATH=$([ "$image" != --sim ] || echo "$dist/sim") "$dist/bin/quota-daemon" serve --config "$work/conf" 2>"$work/log" &
daemon=$!
until quota status >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || {
        cat "$work/log" >&2
        exit 1
    }
    sleep 0.1
done
quota cdi list --config "$work/conf"
echo

# Runs a program in a container of this name.
in_container() {
    name=$1
    program=$2
    shift 2
    if [ "$image" = --sim ]; then
        $podman run "$@" --device "$kind=$name" --rootfs /:O $program
    else
        $podman run "$@" --device "$kind=$name" "$image" $program
    fi
}

echo "alice:"
in_container alice "$work/fill" "$@"
echo "bob:"
in_container bob "$work/fill" "$@"

echo "alice, by podman exec, with an empty environment:"
running=$(in_container alice "sleep 300" "$@" --detach)
$podman exec "$running" env -i ${GPU_SIM:+GPU_SIM="$GPU_SIM"} "$work/fill"
echo
quota why alice --number 1
