"""Real clients on the simulated GPU, each bare and under a quota. One line a check: `ok NAME figures` or `FAIL NAME why`."""
import os
import sys
import time
import traceback

import agreement
import viewers
from lab import DEVICE, DIST, MIB, QUOTA, Lab, Wrong, expect

BLOCK = 128 * MIB  # as in programs/report.py
KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../gpu-sim/kernels.ptx")
NVRTC = os.path.join(sys.prefix, f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/nvidia/cu13/lib/libnvrtc.so.13")

# The client's own words for running out of memory.
OOM = {
    "cuda_python": "CUDA_ERROR_OUT_OF_MEMORY",
    "numba_arrays": "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
    "tinygrad_train": "MemoryError: Allocation of",
    "taichi_fields": "CUDA_ERROR_OUT_OF_MEMORY",
}


def mib(size):
    return f"{size / MIB:.0f} MiB"


def fills(client, name, bare, quota, exact=False):
    """Blocks were taken to the limit, refused in the client's own words, given back, and taken again: `exact` where nothing else is held."""
    most = QUOTA // BLOCK
    expect(quota["fitted"] == most if exact else most - 1 <= quota["fitted"] <= most,
           f"{name}: {quota['fitted']} blocks of {mib(BLOCK)} fitted into {mib(QUOTA)}")
    expect(bare["fitted"] > most, f"{name}: bare, only {bare['fitted']} blocks fitted into {mib(DEVICE)}")
    for run, figures in (("bare", bare), ("quota", quota)):
        oversubscribed = name == "managed" and run == "bare"  # there, memory moves to the host instead
        expect(OOM[client] in figures["error"] or oversubscribed, f"{name}: {run}, the error was {figures['error']!r}")
        expect(figures["again"] == figures["fitted"], f"{name}: {run}, {figures['again']} of {figures['fitted']} blocks fitted the second time")
    return f"{name} {bare['fitted']} blocks bare, {quota['fitted']} under quota"


def within(quota):
    """By the simulator's own account never more than the quota was asked for at once."""
    peak = quota["account"]["peak_requested"]
    expect(peak <= QUOTA, f"{mib(peak)} were held at once under a quota of {mib(QUOTA)}")
    return f"peak {mib(peak)} of {mib(QUOTA)}"


def totals(bare, quota):
    expect(bare["total"] == DEVICE, f"bare, the driver shows {bare['total']} bytes")
    expect(quota["total"] == QUOTA, f"under quota, the driver shows {quota['total']} bytes")
    expect(quota["free"] == QUOTA, f"under quota and with nothing held, {quota['free']} bytes are free")
    return f"total {mib(bare['total'])} bare, {mib(quota['total'])} under quota"


def both(program, *args, **more):
    """Each run has a simulation of its own, whose account is then the run's."""
    with Lab() as lab:
        bare = lab.program(program, *args, **more)
    with Lab() as lab:
        quota = lab.program(program, *args, quota={}, **more)
    return bare, quota


def cuda_python():
    bare, quota = both("cuda_python", "memory")
    expect(quota["device_total"] == QUOTA, f"cuDeviceTotalMem says {quota['device_total']}")
    for run in (bare, quota):
        expect(run["data_survived"], "what was copied to the device came back different")
    ways = [fills("cuda_python", name, bare[name], quota[name], exact=True) for name in ("linear", "managed", "async", "vmm")]
    return "; ".join([totals(bare, quota), *ways, within(quota)])


def cuda_python_compute():
    with Lab() as lab:
        bare = lab.program("cuda_python", "compute", KERNELS, "1.5")
    with Lab() as lab:
        quota = lab.program("cuda_python", "compute", KERNELS, "3", quota={"GPU_QUOTA_COMPUTE": "30%"})
    expect(bare["share"] > 0.5, f"bare, the loop used only {bare['share']:.0%} of the GPU")
    expect(0.25 <= quota["share"] <= 0.33, f"a share of 30% got {quota['share']:.1%}")
    return f"{bare['share']:.1%} of GPU time bare, {quota['share']:.1%} with a limit of 30%"


def numba():
    bare, quota = both("numba_arrays")
    for run in (bare, quota):
        expect(run["data_survived"] and run["managed_ok"], "what was copied to the device came back different")
    return "; ".join([totals(bare, quota), fills("numba_arrays", "device_array", bare, quota), within(quota)])


# tinygrad's search for fast kernels would take most of the time here.
TINYGRAD = {"DEV": "CUDA", "NOOPT": "1"}


def tinygrad(compiler, **more):
    bare, quota = both("tinygrad_train", "8192", "5", **TINYGRAD, **more)
    for run, figures in (("bare", bare), ("quota", quota)):
        expect(figures["device"] == "CUDA" and compiler in figures["compiler"], f"{run} on {figures['device']} by {figures['compiler']}")
        for name in ("small", "after"):
            expect(figures[name]["steps"] == 5, f"{run}: the {name} training loop ended with {figures[name]['error']!r}")
    expect(bare["large"]["steps"] == 5, f"bare, the large training loop ended with {bare['large']['error']!r}")
    expect(OOM["tinygrad_train"] in quota["large"]["error"], f"under quota the large training loop: {quota['large']}")
    return "; ".join(["5 small steps fit, 5 large ones bare only", fills("tinygrad_train", "buffers", bare, quota), within(quota)])


def tinygrad_nvrtc():
    expect(os.path.exists(NVRTC), f"{NVRTC} is missing")
    return tinygrad("CUDARenderer", NVRTC_PATH=NVRTC)


def tinygrad_ptx():
    return tinygrad("PTXRenderer")


def tinygrad_compute():
    """A training loop under a small share ends as it does bare."""
    with Lab() as lab:
        quota = lab.program("tinygrad_train", "128", "5", quota={"GPU_QUOTA_COMPUTE": "5%"}, NVRTC_PATH=NVRTC, **TINYGRAD)
    expect(quota["small"]["steps"] == quota["after"]["steps"] == 5, f"{quota['small']} {quota['after']}")
    return "training loops end with a limit of 5%"


def taichi():
    bare, quota = both("taichi_fields")
    for run in (bare, quota):
        expect(run["arch"] == "Arch.cuda", f"ran on {run['arch']}")
    return "; ".join([fills("taichi_fields", "ndarray", bare, quota), within(quota)])


CHECKS = [cuda_python, cuda_python_compute, numba, tinygrad_nvrtc, tinygrad_ptx, tinygrad_compute, taichi, *viewers.CHECKS, *agreement.CHECKS]


def main(words):
    passed = failed = 0
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        if words and not any(word in name for word in words):
            continue
        start = time.monotonic()
        try:
            figures = check()
            passed += 1
            print(f"ok {name} ({time.monotonic() - start:.1f} s): {figures}", flush=True)
        except Wrong as wrong:
            failed += 1
            print(f"FAIL {name}: {wrong}", flush=True)
        except Exception:  # a check that breaks must not keep the others from running
            failed += 1
            print(f"FAIL {name}: {' | '.join(traceback.format_exc().splitlines()[-3:])}", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    expect(os.path.isdir(f"{DIST}/sim"), f"{DIST} has no artefacts; run cargo xtask dist")
    sys.exit(main(sys.argv[1:]))
