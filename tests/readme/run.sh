#!/usr/bin/env bash
# Follows the README word for word, from top to bottom: takes the commands out of its code blocks and runs them, each block in one shell,
# from the repository's root, with an empty HOME. In a clean clone this is what builds everything, as a newcomer does.
#
#   bash tests/readme/run.sh           in this checkout, with what is built in it
#   bash tests/readme/run.sh --fresh   in a clone of what is committed, with nothing built and no crate downloaded
#   bash tests/readme/run.sh WORDS     only the blocks that have these words in them
#
# The line before each block says what is done with it, and no block may be without one:
#   <!-- run: TEXT -->           it is run, has to succeed, and TEXT has to be in what it prints
#   <!-- run here: TEXT -->      likewise, but not apart from the rest of the machine
#   <!-- not run: REASON -->     it is skipped, by this name
# Apart: as root, with processes and a /dev/shm of its own, since regions of groups without a daemon stay there until the next group comes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Rust's own folders are part of the machine, as the C compiler is.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export HOME=$work/home
mkdir "$HOME"
if [ "${1:-}" = --fresh ]; then
    shift
    git clone --quiet . "$work/clone"
    cd "$work/clone"
    unset CARGO_TARGET_DIR
    export CARGO_HOME=$work/cargo
fi
words=${1:-}

python3 - "$work" <<'PYTHON'
import pathlib, re, sys
lines = pathlib.Path("README.md").read_text().splitlines()
at = count = 0
while at < len(lines):
    if lines[at].startswith("```"):
        mark = re.fullmatch(r"<!-- (run|run here|not run): (.+) -->", lines[at - 1])
        if not mark:
            sys.exit(f"README.md:{at + 1}: no mark in the line before this block; see tests/readme/run.sh")
        end = lines.index("```", at + 1)
        folder = pathlib.Path(sys.argv[1], f"block-{at + 1:04}")
        folder.mkdir()
        (folder / "commands").write_text("PS4='[$SECONDS s] $ '; set -x\n" + "\n".join(lines[at + 1:end]) + "\n")
        (folder / "mark").write_text(mark[1])
        (folder / "text").write_text(mark[2])
        at, count = end, count + 1
    at += 1
sys.exit(0 if count else "README.md has no code block")
PYTHON

built=$(ls -A target 2>/dev/null || true)
echo "HOME: empty"
if [ -z "$built" ]; then
    echo "target: empty, so all is built"
else
    echo "target not empty: followed with what is built (${built//$'\n'/ })"
fi

# One block, as typed into a shell that stops at a failure and says what it does.
follow() {
    local alone=()
    if [ "$(cat "$1/mark")" = run ]; then
        alone=(unshare --mount --pid --mount-proc --fork --kill-child --propagation private sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' -)
    fi
    timeout 2700 "${alone[@]}" bash -e "$1/commands" </dev/null 2>&1 | tee "$1/output"
}

ran=0
for block in "$work"/block-*; do
    line=$((10#${block##*-}))
    mark=$(cat "$block/mark")
    text=$(cat "$block/text")
    grep -qF -- "$words" "$block/commands" || continue
    if [ "$mark" = run ] && [ "$(id -u)" != 0 ]; then
        mark="not run" text="not root"
    fi
    if [ "$mark" = "not run" ]; then
        echo "README.md:$line: not run: $text"
        continue
    fi
    start=$SECONDS
    follow "$block" || { echo "FAILED: README.md:$line"; exit 1; }
    grep -qF -- "$text" "$block/output" || { echo "FAILED: README.md:$line: it did not print \"$text\""; exit 1; }
    echo "README.md:$line: ran in $((SECONDS - start)) s"
    ran=$((ran + 1))
done
left=$(ls -A "$HOME")
[ -z "$left" ] || { echo "FAILED: left in HOME: $left"; exit 1; }
echo "README.md: $ran blocks ran; HOME is empty still"
[ $ran -gt 0 ]
