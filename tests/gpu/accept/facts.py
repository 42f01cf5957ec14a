"""What driver and device this is, what a context costs, and what look-ups return. `facts.py machine|contexts|lookups|smi`; the rest are workers."""
import contextlib
import ctypes
import glob
import os
import platform
import subprocess
import sys
import time
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p

import cuda
import nvml
from lab import DIST, MIB, ROOT, Worker, bare, clean_environment, limited, main, once, part, record, say, tail

ATTRIBUTES = {"major": 75, "minor": 76, "multiprocessors": 16, "threads per multiprocessor": 39, "clock kHz": 13, "L2 bytes": 38, "pools": 115,
              "virtual memory": 102, "concurrent managed": 89, "cooperative launch": 95, "PCI bus": 33}


def machine():
    record("python", sys.version.split()[0], platform=platform.platform(), cpus=os.cpu_count())
    with part("driver"):
        cuda.call("cuInit", 0)
        name = ctypes.create_string_buffer(128)
        cuda.call("cuDeviceGetName", name, 128, 0)
        version = c_int()
        cuda.call("cuDriverGetVersion", byref(version))
        attributes = {what: cuda.attribute(number) for what, number in ATTRIBUTES.items()}
        record("device", name.value.decode(), uuid=cuda.uuid(), total=cuda.get("cuDeviceTotalMem_v2", 0), attributes=attributes)
        record("driver", version.value, "CUDA version")
    with part("nvml"):
        watch = nvml.Nvml(cuda.uuid())
        record("nvml", watch.text("nvmlSystemGetDriverVersion"), memory=watch.memory())
        record("others", len(watch.processes()), "processes on the device before the checks")
        for what in ("ComputeMode", "PersistenceMode"):
            with contextlib.suppress(nvml.NvmlError, AttributeError):
                record(what, watch.number("nvmlDeviceGet" + what))
    with part("doctor"):
        done = subprocess.run([f"{DIST}/bin/quota-daemon", "doctor"], env=clean_environment(), capture_output=True, text=True, timeout=20, check=False)
        record("doctor", done.returncode, "exit status", done.returncode in (0, 1), "0 or 1 (with findings)", text=(done.stdout + done.stderr)[:4000])


def context():
    """Opens a context, runs one kernel, and waits."""
    start = time.monotonic()
    cuda.open_context()
    seconds = time.monotonic() - start
    cuda.Kernels().launch("sim_work", 1)()
    cuda.call("cuCtxSynchronize")
    say(pid=os.getpid(), seconds=seconds, free=cuda.memory_info()[0], total=cuda.memory_info()[1])
    sys.stdin.readline()


def contexts():
    """What a process with a context holds: by NVML's device figure, by NVML's process figure, and as another process sees free memory shrink."""
    cuda.open_context()
    watch = nvml.Nvml(cuda.uuid())
    time.sleep(0.2)
    start_used, start_free = watch.used(), cuda.memory_info()[0]
    workers, costs, times = [], [], []
    try:
        for _ in range(3):
            used, free = watch.used(), cuda.memory_info()[0]
            workers.append(Worker(bare(), "facts", "context"))
            answer = workers[-1].answer()
            times.append(answer["seconds"])
            costs.append((watch.used() - used, free - cuda.memory_info()[0], watch.processes().get(answer["pid"])))
    finally:
        for worker in workers:
            worker.end()
    record("context, NVML device", [c[0] // MIB for c in costs], "MiB, three processes")
    record("context, cuMemGetInfo", [c[1] // MIB for c in costs], "MiB, seen by another process")
    record("context, NVML process", [c[2] // MIB if c[2] else c[2] for c in costs], "MiB; none: its pid is not listed here")
    record("context, time", [round(t, 3) for t in times], "s for cuInit and the primary context")
    end = time.monotonic() + 3
    while watch.used() > start_used + MIB and time.monotonic() < end:
        time.sleep(0.02)
    record("after", (watch.used() - start_used) // MIB, "MiB left by NVML", by_driver=start_free - cuda.memory_info()[0])
    with part("charged"):
        quota = 4096 * MIB
        seen = once(limited("4GiB", context=None), "facts", "context")
        charged, real = quota - seen["free"], max(c[0] for c in costs)
        record("context, charged", charged // MIB, "MiB by default", seen["total"] == quota, "total is the quota", real=real, short_by=max(0, real - charged))


# ---- look-ups -------------------------------------------------------------------------------------------------------------------------


class Place(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def exported(path):
    """Names that the driver library exports, from `nm` or else from the recorded lists."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout.split("\n")
        return {line.split()[-1].split("@")[0] for line in lines if " cu" in line}
    names = {name for name, _, _ in asked()}
    endings = [v + p for v in ("", "_v2", "_v3", "_v4") for p in ("", "_ptsz", "_ptds")]
    return {name + ending for name in names for ending in endings if name}


def asked():
    found = set()
    for file in glob.glob(f"{ROOT}/tests/data/clients/*.lookups.tsv"):
        with open(file) as f:
            rows = (line.rstrip("\n").split("\t") for line in f)
            found |= {(row[0], int(row[1]), int(row[2])) for row in rows if len(row) == 3}
    return sorted(found)


def lookup():
    """Every recorded request: result, status, and which exported symbols lie at the address (or the hook's name)."""
    libc, place = ctypes.CDLL(None), Place()
    cuda.code("cuInit", 0)
    with open("/proc/self/maps") as maps:
        path = next(line.split(None, 5)[5].strip() for line in maps if "libcuda.so" in line)
    by_address = {}
    for name in sorted(exported(path)):
        with contextlib.suppress(AttributeError):
            by_address.setdefault(ctypes.cast(getattr(cuda.lib, name), c_void_p).value, []).append(name)
    answers = []
    for name, version, flags in asked():
        pointer, status = c_void_p(), c_int(-1)
        code = cuda.lib.cuGetProcAddress_v2(name.encode(), byref(pointer), version, c_uint64(flags), byref(status))
        names = by_address.get(pointer.value, [])
        where = ""
        if pointer.value and libc.dladdr(pointer, byref(place)):
            where = os.path.basename(place.file.decode())
            names = names or [f"?{(place.symbol or b'').decode()}"]
        answers.append([name, version, flags, code, status.value, names, where])
    say(answers=answers, exported=len(by_address), path=os.path.realpath(path))


def lookups():
    """Bare, every pointer is an exported symbol's; hooked, code and status are the same and the pointer leads to the same name."""
    plain = once(bare(), "facts", "lookup")
    # A function that the driver does not have comes back as success with a status that says so, and no address.
    resolved = [a for a in plain["answers"] if a[6]]
    missing, found = [a[:3] for a in resolved if a[0] and a[5][0].startswith("?")], len(resolved)
    record("bare", found, f"of {len(plain['answers'])} resolve", not missing, "each to an exported symbol", not_exported=missing[:50],
           exported=plain["exported"], path=plain["path"])
    hooked = once(limited("4GiB", "50%"), "facts", "lookup")
    differ = [(a, b) for a, b in zip(plain["answers"], hooked["answers"]) if a[:5] != b[:5] or not set(a[5]) & set(b[5]) and a[5] != b[5]]
    caught = sum(1 for b in hooked["answers"] if "quota_shim" in b[6])
    record("hooked", len(differ), "differ", not differ and caught > 0, f"0, and hooks found (here {caught})", hooked=caught, differ=differ[:50])


def smi():
    """What nvidia-smi shows, bare and under a quota."""
    command = ["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]

    def run(env, arguments=command):
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode:
            raise RuntimeError(f"nvidia-smi ended with {done.returncode}: {tail(done.stdout + done.stderr)}")
        return done.stdout

    total, used = (int(x) for x in run(bare()).splitlines()[0].split(","))
    record("bare", f"{used}/{total}", "MiB")
    env = limited("4GiB", group="accept-smi-" + str(os.getpid()))
    total, used = (int(x) for x in run(env).splitlines()[0].split(","))
    record("idle", f"{used}/{total}", "MiB", total == 4096 and used < 600, "4096 in all, nothing held")
    with Worker(env, "memory", "fill", "linear") as worker:
        worker.answer()
        total, used = (int(x) for x in run(env).splitlines()[0].split(","))
        record("full", f"{used}/{total}", "MiB", total == 4096 and used >= 4096 - 256, "4096 in all, all held")
        record("plain", len(run(env, ["nvidia-smi"])), "characters", ok=True, text=run(env, ["nvidia-smi"])[-1500:])


if __name__ == "__main__":
    main(globals())
