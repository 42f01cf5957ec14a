"""Programs that a careless gate would hang or break, under a limit of 2 %: each must end as it does bare. `hazards.py hazards`."""
import threading
import time
from ctypes import byref, c_uint64

import cuda
from lab import Worker, bare, limited, main, part, record, say

PATIENCE_S = 12  # a program that takes longer hangs


def two_streams():
    """A kernel on one stream spins until a kernel on another, launched later, has stored a word."""
    kernels, cell = cuda.Kernels(), cuda.get("cuMemAlloc_v2", 64)
    cuda.call("cuMemsetD32_v2", cell, 0, 16)
    a, b = cuda.get("cuStreamCreate", 1), cuda.get("cuStreamCreate", 1)
    for turn in range(1, 6):
        kernels.launch("sim_wait_word", cell, cuda.word(turn), stream=a)()
        kernels.launch("sim_store_word", cell, cuda.word(turn), stream=b)()
    cuda.call("cuCtxSynchronize")
    return "done"


def host_flag():
    """A kernel spins on a word that a thread sets once it has the lock, which is held by the thread that launches on."""
    kernels, flag, lock = cuda.Kernels(), cuda.HostWord(), threading.Lock()
    a, b = cuda.get("cuStreamCreate", 1), cuda.get("cuStreamCreate", 1)
    context, launching = cuda.get("cuCtxGetCurrent"), threading.Event()

    def setter():
        cuda.call("cuCtxSetCurrent", context)
        launching.wait()
        with lock:
            flag.set(1)

    thread = threading.Thread(target=setter)
    thread.start()
    with lock:
        kernels.launch("sim_wait_word", flag.device, cuda.word(1), stream=a)()
        launching.set()
        for _ in range(20):
            kernels.launch("sim_work", 100_000, stream=b)()
    thread.join()
    cuda.call("cuCtxSynchronize")
    return "done"


def never_ending():
    """While one kernel does not end, launches on other streams go on."""
    kernels, flag = cuda.Kernels(), cuda.HostWord()
    a, b = cuda.get("cuStreamCreate", 1), cuda.get("cuStreamCreate", 1)
    kernels.launch("sim_wait_word", flag.device, cuda.word(1), stream=a)()
    for _ in range(30):
        kernels.launch("sim_work", 20_000, stream=b)()
    cuda.call("cuStreamSynchronize", b)
    flag.set(1)
    cuda.call("cuCtxSynchronize")
    return "done"


def capture(mode):
    """While one thread captures in this mode, another launches, allocates and is throttled; both say what they were answered."""
    kernels, context = cuda.Kernels(), cuda.get("cuCtxGetCurrent")
    a, b, answers = cuda.get("cuStreamCreate", 1), cuda.get("cuStreamCreate", 1), {}
    busy, calm = kernels.launch("sim_work", 200_000, stream=b), kernels.launch("sim_work", 1000, stream=a)
    busy()
    cuda.call("cuStreamSynchronize", b)
    begun, stop = threading.Event(), threading.Event()

    def other():
        cuda.call("cuCtxSetCurrent", context)
        begun.wait()
        launched = set()
        for _ in range(30):
            launched.add(busy.code())
        p = c_uint64()
        answers.update(launches=sorted(launched), alloc=cuda.code("cuMemAlloc_v2", byref(p), 1 << 20))
        stop.set()

    thread = threading.Thread(target=other)
    thread.start()
    answers["begin"] = cuda.code("cuStreamBeginCapture_v2", a, mode)
    begun.set()
    answers["first captured"] = calm.code()
    while not stop.is_set():  # the other's allocation may end the capture, so later answers are a matter of luck
        calm.code()
        time.sleep(0.005)
    thread.join()
    graph, instance = c_uint64(), c_uint64()
    answers["end"] = cuda.code("cuStreamEndCapture", a, byref(graph))
    if not answers["end"]:
        answers["instantiate"] = cuda.code("cuGraphInstantiateWithFlags", byref(instance), graph, 0)
        answers["launch"] = cuda.code("cuGraphLaunch", instance, a)
        answers["synchronise"] = cuda.code("cuCtxSynchronize")
    return answers


PROGRAMS = {
    "two streams": two_streams,
    "host flag and lock": host_flag,
    "never-ending kernel": never_ending,
    "capture global": lambda: capture(0),
    "capture thread-local": lambda: capture(1),
    "capture relaxed": lambda: capture(2),
}


def program(name):
    cuda.open_context()
    say(result=PROGRAMS[name]())


def outcome(env, name):
    """The program's result and its time; a program that hangs is ended."""
    with Worker(env, "hazards", "program", name) as worker:
        timer, start = threading.Timer(PATIENCE_S, worker.process.kill), time.monotonic()
        timer.start()
        try:
            return worker.answer()["result"], round(time.monotonic() - start, 1)
        except RuntimeError as e:
            hung = time.monotonic() - start >= PATIENCE_S
            return (f"hangs for {PATIENCE_S} s" if hung else str(e)[-200:]), None
        finally:
            timer.cancel()


def hazards():
    for name in PROGRAMS:
        with part(name):
            # Loading a kernel lazily may wait for those that run, with or without a quota: a hang of the driver's own.
            eager = {"CUDA_MODULE_LOADING": "EAGER"}
            plain, _ = outcome(bare(**eager), name)
            hooked, seconds = outcome(limited("4GiB", "2%", **eager), name)
            record(name, seconds, "s", hooked == plain and seconds is not None, "as bare", bare=plain, hooked=hooked)


if __name__ == "__main__":
    main(globals())
