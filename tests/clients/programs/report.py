"""What the programs share: filling memory to the limit, and the line of figures that each ends with."""
import ctypes
import gc
import json

MIB = 1 << 20
BLOCK = 128 * MIB
MOST = 40  # more than the device has: managed memory, bare, may be more than that


def fill(take, oom, settle=lambda: None):
    """Takes blocks until the client's own error says that memory is out, gives all back, and takes as many again.

    `take` returns one block, which is given back when Python drops it; `oom` is the error's type; `settle` makes pending frees real.
    """
    held, error = [], None
    while error is None and len(held) < MOST:
        try:
            held.append(take())
        except oom as e:
            error = f"{type(e).__name__}: {e}"
    fitted = len(held)
    held.clear()
    gc.collect()
    settle()
    held.extend(take() for _ in range(fitted))
    again = len(held)
    held.clear()
    gc.collect()
    settle()
    return {"block": BLOCK, "fitted": fitted, "error": " ".join((error or "").split())[:200], "again": again}


def account():
    """The simulator's own account of its first device: the judge of what was really used. Empty on another driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    try:
        snapshot = driver.gpuSimSnapshot
    except AttributeError:
        return {}
    snapshot.argtypes, snapshot.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_int
    size = snapshot(None, 0)
    text = ctypes.create_string_buffer(size + 65536)
    snapshot(text, len(text))
    device = json.loads(text.value)["devices"][0]
    return {name: device[name] for name in ("total", "used", "peak", "requested", "peak_requested", "busy_ns")}


def report(**figures):
    print(json.dumps(figures | {"account": account()}), flush=True)
