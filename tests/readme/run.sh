#!/usr/bin/env bash
# Follows the README word for word: takes the commands out of its code blocks and runs them, each block in one shell, from the
# repository's root, with an empty HOME, on the simulated GPU.
#
#   bash tests/readme/run.sh           with what is built here already (target/): a CI run has no time to build all of it again
#   bash tests/readme/run.sh --fresh   in a clone, where nothing is built
#
# The line before each block says what is done with it, and no block may be without one:
#   <!-- run -->                 it is run, and has to succeed
#   <!-- run: TEXT -->           and TEXT has to be in what it prints
#   <!-- not run: REASON -->     it is skipped, by this name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# What a block mounts or leaves running ends with it.
if [ "${IN_OWN_NAMESPACES:-}" != yes ]; then
    [ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 0; }
    IN_OWN_NAMESPACES=yes exec unshare --mount --pid --mount-proc --fork --kill-child --propagation private bash "$0" "$@"
fi

# Regions of groups without a daemon stay in /dev/shm until the next group comes.
mount -t tmpfs tmpfs /dev/shm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "${1:-}" = --fresh ]; then
    git clone --quiet . "$work/clone"
    cd "$work/clone"
    unset CARGO_TARGET_DIR
fi

python3 - "$work" <<'PYTHON'
import pathlib, re, sys
lines = pathlib.Path("README.md").read_text().splitlines()
at = count = 0
while at < len(lines):
    if lines[at].startswith("```"):
        mark = re.fullmatch(r"<!-- (run|not run)(?:: (.*))? -->", lines[at - 1])
        if not mark or (mark[1] == "not run" and not mark[2]):
            sys.exit(f"README.md:{at + 1}: no mark in the line before this block; see tests/readme/run.sh")
        end = lines.index("```", at + 1)
        folder = pathlib.Path(sys.argv[1], f"block-{at + 1:04}")
        folder.mkdir()
        (folder / "commands").write_text("set -e\n" + "\n".join(lines[at + 1:end]) + "\n")
        (folder / "mark").write_text(mark[1])
        (folder / "text").write_text(mark[2] or "")
        at, count = end, count + 1
    at += 1
sys.exit(0 if count else "README.md has no code block")
PYTHON

# Rust's own folders are part of the machine, as the C compiler is.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export HOME=$work/home GPU_SIM=$work/gpu
mkdir "$HOME"
ran=0
for block in "$work"/block-*; do
    line=$((10#${block##*-}))
    text=$(cat "$block/text")
    if [ "$(cat "$block/mark")" = "not run" ]; then
        echo "README.md:$line: not run: $text"
        continue
    fi
    sed 's/^/    /' <(tail -n +2 "$block/commands")
    start=$SECONDS
    if ! timeout 900 bash "$block/commands" >"$block/output" 2>&1 </dev/null; then
        cat "$block/output"
        echo "FAILED: README.md:$line"
        exit 1
    fi
    if ! grep -qF -- "$text" "$block/output"; then
        cat "$block/output"
        echo "FAILED: README.md:$line: it did not print \"$text\""
        exit 1
    fi
    echo "README.md:$line: ran in $((SECONDS - start)) s"
    ran=$((ran + 1))
done
[ -z "$(ls -A "$HOME")" ] || { echo "FAILED: left in HOME: $(ls -A "$HOME")"; exit 1; }
[ $ran -gt 0 ]
