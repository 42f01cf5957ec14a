#!/usr/bin/env bash
# Puts NVIDIA's own libcuda.so.1 and libnvidia-ml.so.1 of two driver branches, from Debian's non-free
# component, into DIR/535 and DIR/550. No GPU is needed to look functions up in them. Nothing is
# installed: the packages are fetched with a private list of sources and unpacked.
#
#   fetch-driver.sh DIR
#
# Exit status 3: the packages cannot be had here (no apt, no network).
set -euo pipefail

dir=${1:?usage: fetch-driver.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# Branch and the Debian release that carries it.
branches="535:bookworm 550:trixie"

complete=yes
for pair in $branches; do
    for name in libcuda libnvidia-ml; do
        [ -e "$dir/${pair%%:*}/$name.so.1" ] || complete=no
    done
done
[ $complete = no ] || exit 0

unavailable() {
    echo "fetch-driver: $1" >&2
    exit 3
}
command -v apt-get >/dev/null || unavailable "no apt-get on this machine"
[ "$(dpkg --print-architecture)" = amd64 ] || unavailable "the packages are for amd64"
# The mirror that this machine already uses.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 !~ /-/ && $1 ~ /\/debian\/?$/ { print $1; exit }')
[ -n "$mirror" ] || unavailable "apt knows no Debian mirror; run apt-get update first"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for pair in $branches; do
    echo "deb [signed-by=$keyring] $mirror ${pair#*:} non-free" >>"$work/sources.list"
done
apt() {
    apt-get -qq -o APT::Sandbox::User=root \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$work/state" -o Dir::Cache="$work/cache" "$@"
}
apt update >&2 || unavailable "the package lists cannot be fetched"
for pair in $branches; do
    branch=${pair%%:*}
    mkdir -p "$work/$branch" "$dir/$branch"
    (cd "$work/$branch" && apt download "libcuda1/${pair#*:}" "libnvidia-ml1/${pair#*:}" >&2) ||
        unavailable "the driver libraries of ${pair#*:} cannot be fetched"
    for name in libcuda libnvidia-ml; do
        dpkg-deb -x "$work/$branch/$name"1_*.deb "$work/$branch/root"
        library=$(find "$work/$branch/root" -name "$name.so.*.*" -type f | head -n 1)
        case "$library" in
        *$name.so.$branch.*) ;;
        *) unavailable "$name of ${pair#*:} is '${library##*/}', not of branch $branch" ;;
        esac
        cp "$library" "$dir/$branch/"
        ln -sf "${library##*/}" "$dir/$branch/$name.so"
        ln -sf "${library##*/}" "$dir/$branch/$name.so.1"
        echo "fetch-driver: ${library##*/}" >&2
    done
done
