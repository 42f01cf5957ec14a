#!/usr/bin/env bash
# Accepts a build on a machine with an NVIDIA GPU, in under six minutes: memory quotas, shares of GPU time, the cost of hooks,
# unchanged frameworks. Needs the artefacts in target/dist (built anywhere by `cargo xtask dist --portable`) and python3.
#
#   bash tests/gpu/accept.sh                 everything
#   bash tests/gpu/accept.sh share torch     the checks whose name contains one of the words
#   bash tests/gpu/accept.sh --simulate      a quick subset on the simulated GPU: a test of this script, no GPU needed
#
#   OUT=folder   where accept.json and the table go (default ./accept-out)
#   DIST=folder  the artefacts (default target/dist)
#   PYTHON=...   the interpreter that has PyTorch and the other frameworks (default python3)
#
# The settings of the card are left alone. Without a GPU one line says so, and the exit status is 0.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export DIST=${DIST:-$here/../../target/dist}
export OUT=${OUT:-$PWD/accept-out}
export PYTHONDONTWRITEBYTECODE=1
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "accept: $python is missing; set PYTHON to a Python 3.9 or newer" >&2
    exit 1
}
exec "$python" "$here/accept/run.py" "$@"
