#!/usr/bin/env bash
# The Debian package as an administrator meets it: installed by dpkg, the daemon started with the configuration as it comes, a program
# limited by the packaged library, removed, purged. In a root of its own, on the simulated GPU. As root.
#
#   bash tests/packages/deb.sh [FOLDER]      of the artefacts; default target/dist
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dist=$(realpath "${1:-target/dist}")
[ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 0; }

if [ "${IN_OWN_MOUNTS:-}" != yes ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    WORK=$work IN_OWN_MOUNTS=yes unshare --mount --pid --fork --kill-child --propagation private bash "$0" "$@"
    exit
fi

fail() { echo "FAILED: $*" >&2; exit 1; }
ok() { echo "ok: $*"; }

${XTASK:-cargo run --quiet --package xtask --} deb --dist "$dist" --output "$WORK/deb" >/dev/null
package=$(echo "$WORK"/deb/gpu-quota_*.deb)
if command -v lintian >/dev/null; then
    # A build for tests is not stripped.
    lintian --allow-root --fail-on error,warning --suppress-tags unstripped-binary-or-object "$package" || fail "lintian"
    ok "lintian"
else
    echo "skipped: no lintian"
fi

# A root with what programs need to run at all.
root=$WORK/root
mkdir -p "$root"/{proc,dev,run,tmp,etc,bin,sim,var/lib/dpkg/{info,updates}}
touch "$root/var/lib/dpkg/status"
ln -s /run "$root/var/run"
# Named by the unit.
install -m 755 /dev/null "$root/bin/kill"
mount -t proc proc "$root/proc"
# Regions of groups without a daemon stay there until the next group comes.
mount -t tmpfs tmpfs /dev/shm
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
"${CC:-cc}" -O1 examples/standalone/fill.c -o "$root/bin/fill" -ldl
cp -a "$dist/sim/." "$root/sim/"
for needed in $(ldd "$dist/bin/quota-daemon" "$root/bin/fill" "$dist/lib/libquota_shim.so" | grep -o '/[^ ]*/[^ ]*\.so[^ ]*' | sort -u); do
    [[ $needed == "$dist"* ]] || install -D "$needed" "$root$needed"
done
before=$(cd "$root" && find . -xdev | sort)

dpkg_here() { dpkg --root="$root" --force-script-chrootless --force-depends --log=/dev/null "$@" 2>&1 | grep -v '^dpkg: warning\|depends on\|is not installed' || true; }
dpkg_here --install "$package"
grep -q '^Status: install ok installed' <(dpkg-query --admindir="$root/var/lib/dpkg" --status gpu-quota) || fail "not installed"
ok "installed"
[ -z "$(cd "$root/run" && ls -A)" ] || fail "something was started: $(ls "$root/run")"

# The units, as systemd reads them: with the files of the package where it looks for them.
if command -v systemd-analyze >/dev/null; then
    said=$(systemd-analyze verify --root="$root" --man=no --recursive-errors=no gpu-quota.service 'run-gpu\x2dquota-regions.mount' 2>&1) || fail "systemd-analyze: $said"
    [ -z "$said" ] || fail "systemd-analyze: $said"
    ok "systemd-analyze verify"
else
    echo "skipped: no systemd-analyze"
fi

# Manual and completions.
for page in "$root"/usr/share/man/man1/*.gz; do
    gunzip -c "$page" >"$WORK/page.1"
    said=$(LC_ALL=C.UTF-8 man --local-file --warnings "$WORK/page.1" 2>&1 >"$WORK/page.txt") || fail "$page: $said"
    [ -z "$said" ] || fail "$page: $said"
    grep -q '^NAME' "$WORK/page.txt" || fail "$page has no NAME"
done
ok "$(ls "$root"/usr/share/man/man1 | wc -l) manual pages render"
bash --norc -c '. "$1" && complete -p quota-daemon' - "$root/usr/share/bash-completion/completions/quota-daemon" >/dev/null || fail "completions"
ok "completions load"

# From here on as on that machine.
inside=(chroot "$root" /usr/bin/env -i LD_LIBRARY_PATH=/sim GPU_SIM=/tmp/gpu GPU_SIM_DEVICES=4GiB)
install -D "$(command -v env)" "$root/usr/bin/env"
"${inside[@]}" /usr/bin/quota-daemon check-config >/dev/null || fail "the packaged configuration"
"${inside[@]}" /usr/bin/quota-daemon serve 2>"$WORK/log" &
daemon=$!
for _ in $(seq 100); do
    "${inside[@]}" /usr/bin/quota-daemon status >/dev/null 2>&1 && break
    kill -0 $daemon 2>/dev/null || { cat "$WORK/log"; fail "the daemon ended"; }
    sleep 0.1
done
"${inside[@]}" /usr/bin/quota-daemon set team-a --create --memory 1GiB >/dev/null || { cat "$WORK/log"; fail "no daemon"; }
ok "serving"
[ -f "$root/run/cdi/gpu-quota.io-container_team-a.json" ] || fail "no device for team-a in /run/cdi"
ok "its device is published"
fill=$("${inside[@]}" GPU_QUOTA_SOCKET=/run/gpu-quota/containers/team-a LD_PRELOAD=/usr/lib/gpu-quota/libquota_shim.so /bin/fill) || true
grep -q "shows 1024 MiB" <<<"$fill" && grep -q "then CUDA error 2" <<<"$fill" || fail "not limited: $fill"
ok "a program is limited to 1 GiB"
fill=$("${inside[@]}" /usr/bin/quota-daemon run --memory 512MiB --context 0 -- /bin/fill) || true
grep -q "shows 512 MiB" <<<"$fill" || fail "run: $fill"
ok "quota-daemon run finds the library"
kill $daemon
wait $daemon || fail "the daemon ended with $?"

dpkg_here --remove gpu-quota
left() { comm -13 <(echo "$before") <(cd "$root" && find . -xdev | sort) | grep -v '^\./var/lib/dpkg\|^\./tmp/gpu\|^\./usr/bin/env$\|^\./usr$\|^\./usr/bin$\|^\./etc/gpu-quota$' || true; }
[ "$(left)" = ./etc/gpu-quota/config.toml ] || fail "left after remove: $(left)"
[ -z "$(find "$root/run" -mindepth 1 ! -path "$root/run/cdi")" ] || fail "left in /run: $(find "$root/run")"
ok "removed: the configuration is left"
install -D /dev/null "$root/etc/cdi/gpu-quota.io-container.json"
dpkg_here --purge gpu-quota
rmdir "$root/etc/cdi" || fail "devices are left after purge"
[ -z "$(left)" ] && [ ! -e "$root/etc/gpu-quota" ] || fail "left after purge: $(left)"
ok "purged: nothing is left"
