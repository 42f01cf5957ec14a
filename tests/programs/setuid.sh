#!/bin/sh
# Runs a client that lies in /etc/ld.so.preload's reach, once as it is and once setuid, as an
# unprivileged user with a hostile environment; and once setuid without the library. Needs root; changes nothing outside its own mount
# namespace (started under `unshare --mount`).
#
#   setuid.sh DIR SHIM SIM PROGRAM
#
# With CONTAINER set, that folder is where a container's own socket is looked for.
#
# DIR is an empty folder that everybody may enter. Prints "plain: ...", "setuid: ..." and "bare: ..." lines.
set -eu
dir=$1 shim=$2 sim=$3 program=$4
mount --make-rprivate /

# An /etc of our own, with the library preloaded everywhere and the driver in the default path.
mkdir "$dir/etc" "$dir/shared"
cp -a /etc/. "$dir/etc"
cp "$shim" "$dir/libquota_shim.so"
cp -r "$sim" "$dir/sim"
chmod -R go+rX "$dir/libquota_shim.so" "$dir/sim"
mount --bind "$dir/etc" /etc
echo "$dir/sim" >/etc/ld.so.conf.d/000-test.conf
ldconfig -X
echo "$dir/libquota_shim.so" >/etc/ld.so.preload

if [ -n "${CONTAINER:-}" ]; then
    mkdir "$dir/run"
    mount --bind "$CONTAINER" "$dir/run"
    mount -t tmpfs none /run
    mkdir -p /run/gpu-quota/container
    mount --move "$dir/run" /run/gpu-quota/container
fi

chmod 1777 "$dir/shared"
for kind in plain setuid bare; do
    [ $kind != bare ] || : >/etc/ld.so.preload
    cp "$program" "$dir/$kind"
    chown 65533 "$dir/$kind"
    chmod 0755 "$dir/$kind"
    [ $kind = plain ] || chmod 4755 "$dir/$kind"
    mkdir "$dir/shared/$kind"
    chmod 1777 "$dir/shared/$kind"
    set -- setpriv --reuid=65534 --regid=65534 --clear-groups env -i \
        GPU_SIM="$dir/shared/$kind/sim" GPU_QUOTA_MEMORY=1GiB GPU_QUOTA_LOG=debug \
        GPU_QUOTA_GROUP="setuid-test-$kind-$$" GPU_QUOTA_LOG_FILE="$dir/shared/$kind/log" "$dir/$kind"
    if command -v strace >/dev/null; then
        set -- strace -f -qq -e trace=execve,open,openat,openat2 -e signal=none -o "$dir/$kind.strace" "$@"
    fi
    "$@" >"$dir/$kind.out" 2>"$dir/$kind.err" </dev/null || echo "$kind: ended with $?"
    grep '^total0=' "$dir/$kind.out" | sed "s/^/$kind: /" || true
    [ ! -s "$dir/$kind.err" ] || sed "s/^/$kind: stderr /" "$dir/$kind.err"
    [ ! -e "$dir/shared/$kind/log" ] || echo "$kind: wrote the log"
    # By these users alone: other tests make regions at the same time.
    find /dev/shm -name 'gpu-quota*' '(' -uid 65533 -o -uid 65534 ')' | while read -r region; do
        echo "$kind: made a region"
        rm -f "$region"
    done
    if [ -e "$dir/$kind.strace" ]; then
        # What the program itself opened, the loader's and the simulator's files left out.
        awk '/execve\(/ { lines = "" } { lines = lines $0 "\n" } END { printf "%s", lines }' "$dir/$kind.strace" |
            sed -n 's/.*open[a-z0-9]*(.*"\([^"]*\)".*/\1/p' |
            grep -v -e '^/etc/ld.so' -e '\.so[.0-9]*$' -e "^$dir/shared/$kind/sim" | sort -u |
            sed "s/^/$kind: opened /" || true
    fi
done
