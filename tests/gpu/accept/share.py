"""Shares of GPU time. `share.py alone|pairs|launches|slices`; the rest are workers.

A share is kernels completed in a window times their length alone: GPU time, whatever the wall clock says. A kernel's length is
its rounds times the cost of a round, which is measured first by a process that is neither hooked nor disturbed.
"""
import ctypes
import statistics
import struct
import time
from collections import deque
from ctypes import byref, c_float, c_uint64

import cuda
from lab import SIMULATED, Worker, bare, jobs, limited, main, new_group, once, part, record, say

DURATIONS_US = (100, 5000) if SIMULATED else (20, 100, 1000, 10000, 50000)
LIMITS = (30,) if SIMULATED else (10, 30, 50, 80)
PAIRS = ((25, 75),) if SIMULATED else ((10, 90), (25, 75), (50, 50))
PAIR_DURATIONS_US = (100,) if SIMULATED else (20, 1000, 50000)
TOLERANCE = 3  # points above what was asked; below it as well for a process that is alone
SHORT = 10 if SIMULATED else TOLERANCE  # a busy CPU keeps a simulation short of launches


# ---- workers --------------------------------------------------------------------------------------------------------------------------


class Load:
    """Kernels of chosen length on a stream, a bounded time of them in flight."""

    def __init__(self, ns_per_round, form="plain"):
        cuda.open_context()
        self.kernels, self.ns_per_round, self.form = cuda.Kernels(), ns_per_round, form
        self.stream = cuda.get("cuStreamCreate", 1)
        self.events = [cuda.get("cuEventCreate", 2) for _ in range(2)]  # no timing
        self.full_grid = cuda.attribute(16)

    def step(self, us, full=False):
        """One launch, and how many kernels it stands for."""
        shape = {"grid": self.full_grid, "block": 1024} if full else {"block": 32}
        rounds = max(1, round(us * 1000 / self.ns_per_round["full" if full else "one"]))
        launch = self.kernels.launch("sim_work", rounds, stream=self.stream, **shape)
        if self.form == "cooperative":
            return Cooperative(launch), 1
        if self.form == "ex":
            return LaunchEx(launch, self.stream, shape.get("grid", 1), shape["block"]), 1
        if self.form == "graph":
            return graph_of(launch, self.stream, 4), 4
        return launch, 1

    def run(self, us, secs, start=0.0, full=False):
        """Keeps the GPU busy from `start` (monotonic) for `secs`; the kernels that were complete by the end."""
        step, each = self.step(us, full)
        batch = max(1, int(2000 / (us * each)))  # 2 ms of work between events, two such batches in flight
        flying, done, turn = deque(), 0, 0
        start = start or time.monotonic()
        end = start + secs
        time.sleep(max(0.0, start - time.monotonic()))
        while True:
            if len(flying) < 2 and time.monotonic() < end:
                for _ in range(batch):
                    step()
                cuda.call("cuEventRecord", self.events[turn], self.stream)
                flying.append(self.events[turn])
                turn = 1 - turn
                continue
            if not flying:
                return done
            cuda.call("cuEventSynchronize", flying.popleft())
            if time.monotonic() <= end:
                done += batch * each


class Cooperative:
    """The same launch through cuLaunchCooperativeKernel, which takes no `extra`."""

    def __init__(self, launch):
        self.launch = launch

    def __call__(self):
        answer = cuda.lib.cuLaunchCooperativeKernel(*self.launch.arguments[:-1])
        if answer:
            raise cuda.CudaError("cuLaunchCooperativeKernel", answer)


class LaunchEx:
    """The same launch through cuLaunchKernelEx, without attributes."""

    def __init__(self, launch, stream, grid, block):
        self.launch = launch
        self.config = ctypes.create_string_buffer(struct.pack("IIIIIIIxxxxQQIxxxx", grid, 1, 1, block, 1, 1, 0, stream, 0, 0))

    def __call__(self):
        answer = cuda.lib.cuLaunchKernelEx(self.config, self.launch.arguments[0], self.launch.params, None)
        if answer:
            raise cuda.CudaError("cuLaunchKernelEx", answer)


def graph_of(launch, stream, count):
    """A launch of a graph with `count` such kernels in a row."""
    cuda.call("cuStreamBeginCapture_v2", stream, 2)
    for _ in range(count):
        launch()
    instance = cuda.get("cuGraphInstantiateWithFlags", cuda.get_last("cuStreamEndCapture", stream), 0)
    arguments = c_uint64(instance), c_uint64(stream)

    def run():
        answer = cuda.lib.cuGraphLaunch(*arguments)
        if answer:
            raise cuda.CudaError("cuGraphLaunch", answer)

    run.keep = launch
    return run


def calibrate():
    """Nanoseconds of one round of sim_work, for one warp and for a full GPU: the slope between two lengths, by events."""
    load = Load({"one": 1.0, "full": 1.0})
    a, b = cuda.get("cuEventCreate", 0), cuda.get("cuEventCreate", 0)

    def length(rounds, full):
        step, _ = load.step(rounds / 1000, full)
        cuda.call("cuEventRecord", a, load.stream)
        for _ in range(8):
            step()
        cuda.call("cuEventRecord", b, load.stream)
        cuda.call("cuEventSynchronize", b)
        ms = c_float()
        call = "cuEventElapsedTime_v2" if hasattr(cuda.lib, "cuEventElapsedTime_v2") else "cuEventElapsedTime"
        cuda.call(call, byref(ms), a, b)
        return ms.value * 1e6 / 8

    found = {}
    for shape in ("one", "full"):
        full, end = shape == "full", time.monotonic() + 0.3
        while time.monotonic() < end:  # clocks rise under load
            length(100_000, full)
        slopes = [(length(300_000, full) - length(100_000, full)) / 200_000 for _ in range(9)]
        found[shape] = statistics.median(slopes)
    say(**found)


def load(form, one, full):
    """Runs jobs; first a moment of each, so that the shape is known and the bucket has settled."""
    worker = Load({"one": float(one), "full": float(full)}, form)
    say(ready=True)
    for job in jobs():
        if job.get("warm"):
            worker.run(job["us"], job["warm"], full=job.get("full", False))
            say(warm=True)
        else:
            done = worker.run(job["us"], job["secs"], job.get("start", 0.0), job.get("full", False))
            say(share=done * job["us"] / 1e6 / job["secs"])


# ---- checks ---------------------------------------------------------------------------------------------------------------------------


def start(env, per_round, form="plain"):
    return Worker(env, "share", "load", form, per_round["one"], per_round["full"])


def measure(worker, us, secs, full=False, warm=0.4):
    worker.ask(us=us, warm=max(warm, us / 1e6 * 4), full=full)
    worker.answer()
    worker.ask(us=us, secs=secs, full=full)
    return worker.answer()["share"] * 100


def window(us):
    return {20: 1.0, 100: 1.0, 1000: 1.0, 10000: 1.5}.get(us, 3.0 if us >= 50000 else 2.0)


def alone():
    """A container that is alone gets its limit, whatever its kernels' length."""
    per_round = once(bare(), "share", "calibrate")
    record("round", round(per_round["one"], 3), "ns", full=per_round["full"])
    with part("bare"), start(bare(), per_round) as worker:
        worker.answer()
        cells = {us: round(measure(worker, us, 0.6), 1) for us in DURATIONS_US}
        record("bare", cells, "% by us", want="near 100", ok=None)
    for limit in LIMITS:
        with part(f"{limit} %"), start(limited(compute=f"{limit}%"), per_round) as worker:
            worker.answer()
            cells = {us: round(measure(worker, us, window(us)), 1) for us in DURATIONS_US}
            if not SIMULATED:
                cells["1000 full"] = round(measure(worker, 1000, 1.0, full=True), 1)
            record(f"{limit} %", cells, "% by us", all(-SHORT <= c - limit <= TOLERANCE for c in cells.values()),
                   f"{limit} -{SHORT} +{TOLERANCE}")


def launches():
    """Every way of launching is limited."""
    per_round = once(bare(), "share", "calibrate")
    for form in ("plain", "ex", "cooperative", "graph"):
        with part(form), start(limited(compute="30%"), per_round, form) as worker:
            worker.answer()
            got = round(measure(worker, 100, 1.5), 1)
            record(form, got, "%", -SHORT <= got - 30 <= TOLERANCE, f"30 -{SHORT} +{TOLERANCE}")


def pairs():
    """Two containers in contention: neither gets more than it asked. Whether each gets all of it is noted."""
    per_round = once(bare(), "share", "calibrate")
    for asked in PAIRS:
        with part("/".join(map(str, asked))), start(limited(compute=f"{asked[0]}%", group=new_group()), per_round) as a:
            with start(limited(compute=f"{asked[1]}%", group=new_group()), per_round) as b:
                a.answer(), b.answer()
                for us in PAIR_DURATIONS_US:
                    got = contend((a, b), us, 1.5 if us < 50000 else 3.0)
                    over, short = (any(sign * (g - w) > TOLERANCE for g, w in zip(got, asked)) for sign in (1, -1))
                    record(f"{asked[0]}/{asked[1]} {us} us", "/".join(f"{g:.1f}" for g in got), "%", not over,
                           f"at most {TOLERANCE} points above", all_of_it=not short)


def contend(workers, us, secs):
    for worker in workers:
        worker.ask(us=us, warm=max(0.4, us / 1e6 * 4))
    for worker in workers:
        worker.answer()
    begin = time.monotonic() + 0.05
    for worker in workers:
        worker.ask(us=us, secs=secs, start=begin)
    return [worker.answer()["share"] * 100 for worker in workers]


if __name__ == "__main__":
    main(globals())
