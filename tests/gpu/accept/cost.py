"""What a hook costs: the same calls in processes that are bare, hooked, and limited, in turns. `cost.py hooks`; `worker` is one process."""
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from ctypes import addressof, byref, c_int, c_uint64, c_void_p

import cuda
from lab import HERE, MIB, SIMULATED, bare, limited, main, once, part, record, say

ROUNDS = 1 if SIMULATED else 3
SAMPLES = 5 if SIMULATED else 15
# What a hook may add in ns, by the project's own targets.
TARGETS = {"cuLaunchKernel": 20, "cuGraphLaunch": 30, "cuMemAlloc + cuMemFree": 60, "cuMemGetInfo": 50, "cuGetProcAddress": 300}


def compiled(folder):
    """The loops as a library, where there is a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    target = os.path.join(folder, "loops.so")
    built = subprocess.run([compiler, "-O2", "-shared", "-fPIC", f"{HERE}/loops.c", "-o", target], capture_output=True, check=False)
    return target if built.returncode == 0 else None


class Loops:
    """Times calls: in C where possible, else in Python, whose own cost is in every figure alike."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path) if path != "-" else None
        if self.c:
            self.c.loop_call.restype = self.c.loop_pair.restype = ctypes.c_double

    def calls(self, name, args, n):
        function = getattr(cuda.lib, name)
        if self.c:
            words = (c_uint64 * 11)(*args)
            return self.checked(name, self.c.loop_call(ctypes.cast(function, c_void_p), words, n))
        boxed = [c_uint64(a) for a in args]
        return self.checked(name, self.python(lambda: function(*boxed), n))

    def pairs(self, size, n):
        take, give = cuda.lib.cuMemAlloc_v2, cuda.lib.cuMemFree_v2
        if self.c:
            pointers = (ctypes.cast(f, c_void_p) for f in (take, give))
            return self.checked("cuMemAlloc", self.c.loop_pair(*pointers, c_uint64(size), n))
        p, size = c_uint64(), c_uint64(size)
        return self.checked("cuMemAlloc", self.python(lambda: take(byref(p), size) or give(p), n))

    @staticmethod
    def python(call, n):
        start = time.perf_counter_ns()
        for _ in range(n):
            code = call()
            if code:
                return -code
        return (time.perf_counter_ns() - start) / n

    @staticmethod
    def checked(name, ns):
        if ns < 0:
            raise cuda.CudaError(name, int(-ns))
        return ns


def worker(path):
    """Medians in ns of each call. Launches are of the shortest kernel and waited for, untimed, so that no queue is full."""
    loops = Loops(path)
    cuda.open_context()
    stream = cuda.get("cuStreamCreate", 1)
    launch = cuda.Kernels().launch("sim_work", 1, stream=stream)
    launch_words = [a.value or 0 for a in launch.arguments[:-2]] + [addressof(launch.params), 0]
    cuda.call("cuStreamBeginCapture_v2", stream, 2)
    launch()
    graph = cuda.get("cuGraphInstantiateWithFlags", cuda.get_last("cuStreamEndCapture", stream), 0)
    a, b, status, context = c_uint64(), c_uint64(), c_int(), c_uint64()
    name = ctypes.c_char_p(b"cuMemAlloc")
    name_address = ctypes.cast(name, c_void_p).value
    steps = {
        "cuLaunchKernel": lambda: loops.calls("cuLaunchKernel", launch_words, 200),
        "cuGraphLaunch": lambda: loops.calls("cuGraphLaunch", [graph, stream], 100),
        "cuMemAlloc + cuMemFree": lambda: loops.pairs(MIB, 100),
        "cuMemGetInfo": lambda: loops.calls("cuMemGetInfo_v2", [addressof(a), addressof(b)], 100),
        "cuGetProcAddress": lambda: loops.calls("cuGetProcAddress_v2", [name_address, addressof(a), 12000, 0, addressof(status)], 200),
        "cuCtxGetCurrent": lambda: loops.calls("cuCtxGetCurrent", [addressof(context)], 1000),
    }
    found = {}
    for what, step in steps.items():
        if what == "cuGetProcAddress" and not hasattr(cuda.lib, "cuGetProcAddress_v2"):
            continue
        step()  # the first time pays for what the driver does lazily
        samples = []
        for _ in range(SAMPLES):
            cuda.call("cuStreamSynchronize", stream)
            time.sleep(0.002)
            samples.append(step())
        found[what] = statistics.median(samples)
    say(**found)


def hooks():
    modes = {"bare": bare, "hooked": lambda: limited(context=None), "limited": lambda: limited("4GiB" if not SIMULATED else "1GiB", "95%")}
    with tempfile.TemporaryDirectory() as folder:
        path = compiled(folder) or "-"
        found = {mode: [] for mode in modes}
        for _ in range(ROUNDS):
            for mode, env in modes.items():
                with part(mode):
                    found[mode].append(once(env(), "cost", "worker", path))
    record("loops", "C" if path != "-" else f"Python {sys.version.split()[0]}: figures contain its own cost")
    for what in found["bare"][0] if found["bare"] else ():
        best = {mode: min(f[what] for f in runs) for mode, runs in found.items() if runs}
        added = {mode: round(ns - best["bare"], 1) for mode, ns in best.items() if mode != "bare"}
        record(what, round(best["bare"], 1), "ns bare", ok=None, want=f"target +{TARGETS[what]}" if what in TARGETS else "", added_ns=added,
               runs={mode: [round(f[what], 1) for f in runs] for mode, runs in found.items()})


if __name__ == "__main__":
    main(globals())
