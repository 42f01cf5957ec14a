#!/usr/bin/env bash
# Runs real, unmodified GPU clients on the simulated GPU, bare and under quotas:
#
#   bash tests/clients/run.sh            every check
#   bash tests/clients/run.sh numba ...  those whose name contains a word
#   bash tests/clients/run.sh --fetch    none: only what they need is fetched
#
# Needs the artefacts in target/dist (`cargo xtask dist`; DIST=folder for others), python3 with venv, and apt-get on Debian for nvtop.
# What is fetched goes to target/clients-venv and target/clients-nvtop; nothing is installed outside target/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/target/clients-venv
nvtop=$root/target/clients-nvtop
export DIST=${DIST:-$root/target/dist}
export PYTHONDONTWRITEBYTECODE=1

die() {
    echo "tests/clients: $1" >&2
    exit 1
}

retry() {
    local try
    for try in 1 2 3; do
        "$@" && return 0
        sleep $((try * 5))
    done
    return 1
}

install_wheels() {
    cmp -s "$here/requirements.txt" "$venv/installed.txt" && return 0
    rm -rf "$venv"
    python3 -m venv "$venv" || die "python3 has no venv module (Debian: apt install python3-venv)"
    retry "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
        die "the clients' packages cannot be installed"
    cp "$here/requirements.txt" "$venv/installed.txt"
}

# nvtop is in Debian's contrib component: fetched with a list of sources of our own, and only unpacked.
install_nvtop() {
    [ -x "$nvtop/usr/bin/nvtop" ] && return 0
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg work mirror codename
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk '$2 !~ /-/ && $1 ~ /\/debian\/?$/ { print $1; exit }')
    [ -n "$mirror" ] || die "apt knows no Debian mirror; run apt-get update first"
    echo "deb [signed-by=$keyring] $mirror $codename contrib" >"$work/sources.list"
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
    local options=(-qq -o APT::Sandbox::User=root -o Dir::Etc::sourcelist="$work/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$work/state" -o Dir::Cache="$work/cache")
    retry apt-get "${options[@]}" update || die "the package list with nvtop cannot be fetched"
    (cd "$work" && retry apt-get "${options[@]}" download nvtop) || die "nvtop cannot be fetched"
    rm -rf "$nvtop"
    dpkg-deb -x "$work"/nvtop_*.deb "$nvtop"
    "$nvtop/usr/bin/nvtop" --version >/dev/null || die "nvtop does not start; it needs libncursesw6 and libsystemd0"
}

mkdir -p "$root/target"
install_wheels
install_nvtop
[ "${1:-}" != --fetch ] || exit 0
[ -e "$DIST/lib/libquota_shim.so" ] || die "$DIST has no artefacts; run cargo xtask dist"
export NVTOP=$nvtop/usr/bin/nvtop
# A /dev/shm of their own, where that is allowed: nothing is left behind, and nobody else's group or simulation is met.
if unshare --mount true 2>/dev/null; then
    exec unshare --mount sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh "$venv/bin/python" "$here/run.py" "$@"
fi
exec "$venv/bin/python" "$here/run.py" "$@"
