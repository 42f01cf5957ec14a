"""The viewers on the simulator's NVML: bare they show the device, under quota the quota, and they agree with the driver."""
import json
import os
import re
import sys

import terminal
from lab import DEVICE, MIB, QUOTA, Lab, expect

HELD = 384 * MIB  # what another process of the group holds meanwhile
BIN = os.path.dirname(sys.executable)
NVTOP = os.environ.get("NVTOP", "nvtop")


def mib(size):
    return f"{size // MIB} MiB"


def watch(view):
    """Calls `view(lab, environment, holder)` bare and under quota with a holder of memory; each returns (used, total) in bytes as shown."""
    shown = {}
    for run, quota, total in (("bare", None, DEVICE), ("quota", {}, QUOTA)):
        with Lab() as lab, lab.holder(HELD, quota) as holder:
            expect(holder["total"] == total, f"{run}: the driver shows {holder['total']} bytes")
            used, seen = shown[run] = view(lab, lab.environment(quota), holder)
            expect(seen == total, f"{run}: a total of {seen / MIB:.1f} MiB is shown, not {mib(total)}")
            by_driver = holder["total"] - holder["free"]
            # Viewers round to MiB or hundredths of GiB.
            expect(abs(used - by_driver) <= 6 * MIB, f"{run}: {used / MIB:.1f} MiB used are shown; by cuMemGetInfo it is {mib(by_driver)}")
    (_, bare), (used, quota) = shown["bare"], shown["quota"]
    expect(abs(used - HELD) <= 6 * MIB, f"{used / MIB:.1f} MiB used are shown where {mib(HELD)} are held")
    return f"{mib(bare)} bare, {mib(used)} of {mib(quota)} under quota"


def nvidia_ml_py():
    def view(lab, env, holder):
        seen = json.loads(lab.output([sys.executable, os.path.join(os.path.dirname(__file__), "programs/nvml.py")], env, 30))
        v1, v2 = seen["v1"], seen["v2"]
        expect(v1["used"] + v1["free"] == v1["total"], f"version 1: {v1}")
        expect(v2["used"] + v2["free"] + v2["reserved"] == v2["total"], f"version 2: {v2}")
        expect(v1["total"] == v2["total"] and v1["free"] == v2["free"], f"the versions differ: {v1} {v2}")
        expect(v2["free"] == holder["free"], f"NVML says {v2['free']} free, the driver {holder['free']}")
        expect(holder["pid"] in seen["pids"], f"pid {holder['pid']} is not among {seen['pids']}")
        return v1["used"], v1["total"]

    return watch(view)


def gpustat():
    def view(lab, env, holder):
        gpu = json.loads(lab.output([f"{BIN}/gpustat", "--json"], env, 30))["gpus"][0]
        pids = [process["pid"] for process in gpu["processes"]]
        expect(holder["pid"] in pids, f"pid {holder['pid']} is not among {pids}")
        return gpu["memory.used"] * MIB, gpu["memory.total"] * MIB

    return watch(view)


def nvitop():
    def view(lab, env, holder):
        pattern = r"([\d.]+)([MG])iB\s*/\s*([\d.]+)([MG])iB"
        text = terminal.screen([f"{BIN}/nvitop", "--once", "--colorful"], env, lab.folder.name, until=pattern)
        pair = re.search(pattern, text)
        expect(pair, f"no memory figures on the screen: {text[:300]!r}")
        expect(re.search(rf"\b{holder['pid']}\b", text), f"pid {holder['pid']} is not on the screen")
        unit = {"M": MIB, "G": 1024 * MIB}
        return float(pair[1]) * unit[pair[2]], float(pair[3]) * unit[pair[4]]

    return watch(view)


def nvtop():
    def view(lab, env, holder):
        pattern = r"([\d.]+)Gi/([\d.]+)Gi"
        text = terminal.screen([NVTOP, "-C", "-p"], env, lab.folder.name, until=pattern)
        pair = re.search(pattern, text)
        expect(pair, f"no memory figures on the screen: {text[:300]!r}")
        return float(pair[1]) * 1024 * MIB, float(pair[2]) * 1024 * MIB

    return watch(view)


CHECKS = [nvidia_ml_py, gpustat, nvitop, nvtop]
