"""How the driver divides the GPU between processes that are not limited: shares, and the length of a slice. `slices.py slices`."""
import statistics
import struct
import time

import cuda
from lab import Worker, bare, jobs, main, once, part, record, say

# One thread reads the nanosecond timer until `span` has passed and leaves each pair (last before, first after) between which more than
# `gap` lies: there the process was switched out. out[0] is their number, at most `cap`.
TIMER = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry gaps(.param .u64 p_out, .param .u64 p_span, .param .u64 p_gap, .param .u64 p_cap)
{
    .reg .pred %p;
    .reg .b64 %out, %span, %gap, %cap, %start, %last, %now, %step, %n, %at;
    ld.param.u64 %out, [p_out];
    ld.param.u64 %span, [p_span];
    ld.param.u64 %gap, [p_gap];
    ld.param.u64 %cap, [p_cap];
    mov.u64 %n, 0;
    add.u64 %at, %out, 8;
    mov.u64 %start, %globaltimer;
    mov.u64 %last, %start;
AGAIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %step, %now, %last;
    setp.le.u64 %p, %step, %gap;
    @%p bra NEXT;
    setp.ge.u64 %p, %n, %cap;
    @%p bra NEXT;
    st.global.u64 [%at], %last;
    st.global.u64 [%at + 8], %now;
    add.u64 %at, %at, 16;
    add.u64 %n, %n, 1;
NEXT:
    mov.u64 %last, %now;
    sub.u64 %step, %now, %start;
    setp.lt.u64 %p, %step, %span;
    @%p bra AGAIN;
    st.global.u64 [%out], %n;
    ret;
}
"""
CAP = 4000


def timer():
    """Runs the timer kernel when asked, for `ms`; answers with the gaps, in us."""
    cuda.open_context()
    kernels, out = cuda.Kernels(TIMER), cuda.get("cuMemAlloc_v2", 8 + 16 * CAP)
    say(ready=True)
    for job in jobs():
        time.sleep(max(0.0, job["start"] - time.monotonic()))
        kernels.launch("gaps", out, int(job["ms"] * 1e6), 20_000, CAP)()
        cuda.call("cuCtxSynchronize")
        raw = bytearray(8 + 16 * CAP)
        view = (cuda.ctypes.c_char * len(raw)).from_buffer(raw)
        cuda.call("cuMemcpyDtoH_v2", view, out, len(raw))
        (n,) = struct.unpack_from("Q", raw)
        pairs = [struct.unpack_from("QQ", raw, 8 + 16 * i) for i in range(n)]
        gaps = [(b - a) / 1000 for a, b in pairs]
        own = [(c - b) / 1000 for (_, b), (c, _) in zip(pairs, pairs[1:])]
        say(gaps=gaps, own=own)


def middle(values):
    return round(statistics.median(values)) if values else None


def slices():
    per_round = once(bare(), "share", "calibrate")
    load = lambda: Worker(bare(), "share", "load", "plain", per_round["one"], per_round["full"])
    with part("slice"), Worker(bare(), "slices", "timer") as watcher, load() as other:
        watcher.answer(), other.answer()
        other.ask(us=500, warm=0.2)
        other.answer()
        begin = time.monotonic() + 0.05
        other.ask(us=500, secs=0.5, start=begin)
        watcher.ask(start=begin + 0.1, ms=200)
        seen, _ = watcher.answer(), other.answer()
        record("own slice", middle(seen["own"]), "us, median", ok=None, n=len(seen["own"]))
        record("switched out", middle(seen["gaps"]), "us, median", ok=None, n=len(seen["gaps"]))
    for pair in ((20, 20), (20, 5000), (5000, 50000)):
        with part(f"bare {pair}"), load() as a, load() as b:
            a.answer(), b.answer()
            for worker, us in zip((a, b), pair):
                worker.ask(us=us, warm=0.2)
            a.answer(), b.answer()
            begin = time.monotonic() + 0.05
            for worker, us in zip((a, b), pair):
                worker.ask(us=us, secs=1.5, start=begin)
            got = [worker.answer()["share"] * 100 for worker in (a, b)]
            record(f"bare {pair[0]} us and {pair[1]} us", "/".join(f"{g:.1f}" for g in got), "%", ok=None)


if __name__ == "__main__":
    main(globals())
