"""The viewers on the simulator's NVML: bare they show the device, under quota the quota and its processes, and they agree with the driver."""
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
    return f"{size / MIB:.0f} MiB"


def nvml(lab, env):
    """What nvidia-ml-py says, consistent in itself."""
    seen = json.loads(lab.output([sys.executable, os.path.join(os.path.dirname(__file__), "programs/nvml.py")], env, 60))
    v1, v2 = seen["v1"], seen["v2"]
    expect(v1["used"] + v1["free"] == v1["total"], f"version 1: {v1}")
    expect(v2["used"] + v2["free"] + v2["reserved"] == v2["total"], f"version 2: {v2}")
    expect(v1["total"] == v2["total"] and v1["free"] == v2["free"], f"the versions differ: {v1} {v2}")
    return v1["used"], v1["total"], seen["pids"]


def gpustat(lab, env):
    gpu = json.loads(lab.output([f"{BIN}/gpustat", "--json"], env, 60))["gpus"][0]
    return gpu["memory.used"] * MIB, gpu["memory.total"] * MIB, [process["pid"] for process in gpu["processes"]]


UNIT = {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}


def nvitop(lab, env):
    pattern = r"([\d.]+)([KMG]?i?B)\s*/\s*([\d.]+)([MG]iB)"
    text = terminal.screen([f"{BIN}/nvitop", "--once", "--colorful"], env, lab.folder.name, until=pattern)
    pair = re.search(pattern, text)
    expect(pair, f"no memory figures on the screen: {text[:300]!r}")
    # The table of processes begins each line with the device and the pid.
    pids = [int(pid) for pid in re.findall(r"^│\s+0\s+(\d+)\s+C\b", text, re.MULTILINE)]
    return float(pair[1]) * UNIT[pair[2]], float(pair[3]) * UNIT[pair[4]], pids


def nvtop(lab, env):
    pattern = r"([\d.]+)Gi/([\d.]+)Gi"
    text = terminal.screen([NVTOP, "-C", "-p"], env, lab.folder.name, until=pattern)
    pair = re.search(pattern, text)
    expect(pair, f"no memory figures on the screen: {text[:300]!r}")
    # Its process list was not asked for.
    return float(pair[1]) * 1024 * MIB, float(pair[2]) * 1024 * MIB, None


# Each returns (used, total, pids) as shown, in bytes.
READERS = {"nvidia-ml-py": nvml, "gpustat": gpustat, "nvitop": nvitop, "nvtop": nvtop}


def watch(name):
    """Bare and under quota, with a holder of memory."""
    shown = {}
    for run, quota, total in (("bare", None, DEVICE), ("quota", {}, QUOTA)):
        with Lab() as lab, lab.holder(HELD, quota) as holder:
            expect(holder["total"] == total, f"{run}: the driver shows {holder['total']} bytes")
            used, seen, pids = shown[run] = READERS[name](lab, lab.environment(quota))
            expect(seen == total, f"{run}: a total of {seen / MIB:.1f} MiB is shown, not {mib(total)}")
            by_driver = holder["total"] - holder["free"]
            # Viewers round to MiB or thousandths of GiB.
            expect(abs(used - by_driver) <= MIB, f"{run}: {used / MIB:.1f} MiB used are shown; by cuMemGetInfo it is {mib(by_driver)}")
            expect(pids is None or pids == [holder["pid"]], f"{run}: {pids} are listed, not {holder['pid']}")
    (_, bare, _), (used, quota, _) = shown["bare"], shown["quota"]
    expect(abs(used - HELD) <= MIB, f"{used / MIB:.1f} MiB used are shown where {mib(HELD)} are held")
    return f"{mib(bare)} bare, {mib(used)} of {mib(quota)} under quota"


def check(name):
    def run():
        return watch(name)

    run.__name__ = name.replace("-", "_")
    return run


CHECKS = [check(name) for name in READERS]
