"""A client fills its memory in steps, fails, frees and fills it again; at each step every viewer says what cuMemGetInfo says."""
import json

import viewers
from lab import MIB, QUOTA, Lab, end, expect, python, tail

# What each step leaves free, of what was free at first.
STEPS = [("begin", None), ("half", 0.5), ("full", 0), ("over", 0), ("free", 1), ("full", 0)]
# The client's own words for running out of memory.
OOM = {
    "cuda_python": "CUDA_ERROR_OUT_OF_MEMORY",
    "numba": "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
    "tinygrad": "MemoryError: Allocation of",
}


def ask(lab, name, reader, step, figures):
    used = figures["total"] - figures["free"]
    seen, total, pids = reader(lab, lab.environment({}))
    expect(total == figures["total"], f"{step}: {name} shows a total of {total / MIB:.1f} MiB, cuMemGetInfo {figures['total'] / MIB:.1f}")
    expect(abs(seen - used) <= MIB, f"{step}: {name} shows {seen / MIB:.1f} MiB used, by cuMemGetInfo it is {used / MIB:.1f}")
    # A process that holds nothing is in no list.
    if used and pids is not None:
        expect(set(pids) == {figures["pid"]}, f"{step}: {name} lists {pids}, not {figures['pid']}")


def filled(client, **more):
    with Lab() as lab:
        process = lab.start(python("steps", client), lab.environment({}, **more))
        try:
            first = None
            for step, left in STEPS:
                process.stdin.write(f"{step}\n")
                process.stdin.flush()
                line = process.stdout.readline()
                expect(line, f"{step}: the client ended: {tail(process.stderr.read()) if process.poll() is not None else '?'}")
                figures = json.loads(line)
                first = figures["free"] if first is None else first
                expect((OOM[client] in figures["error"]) == (step == "over"), f"{step}: the client's error is {figures['error']!r}")
                expect(figures["total"] == QUOTA, f"{step}: a total of {figures['total']}")
                if left is not None:
                    wanted = first - QUOTA // 2 if left == 0.5 else first * left
                    expect(abs(figures["free"] - wanted) < 512, f"{step}: {figures['free']} bytes are free, not {wanted}")
                peak = figures["account"].get("peak_requested", 0)
                expect(peak <= QUOTA, f"{step}: {peak / MIB:.0f} MiB were held at once")
                for name, reader in viewers.READERS.items():
                    ask(lab, name, reader, step, figures)
        finally:
            end(process)
    return f"{len(STEPS)} steps, {len(viewers.READERS)} viewers at each, all within 1 MiB of cuMemGetInfo"


def agreement_cuda_python():
    return filled("cuda_python")


def agreement_numba():
    return filled("numba")


def agreement_tinygrad():
    return filled("tinygrad", DEV="CUDA")


CHECKS = [agreement_cuda_python, agreement_numba, agreement_tinygrad]
