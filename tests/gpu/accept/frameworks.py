"""Unchanged frameworks under quotas. `frameworks.py FRAMEWORK` is the check, `frameworks.py run_FRAMEWORK ...` its worker."""
import importlib.util
import os
import statistics
import sys
import time

from lab import GIB, MIB, bare, limited, main, once, part, record, say, skip

QUOTA = 4 * GIB
BLOCK = 256 * MIB


def missing(*modules):
    """Says so when a module is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            skip(modules[0], f"{module} is not installed")
            return True
    return False


def fill(take, errors):
    """Blocks until the framework's own error, all given back, and as many again."""
    held, error = [], None
    while error is None and len(held) < 4000:
        try:
            held.append(take())
        except errors as e:
            error = e
    fitted = len(held)
    held.clear()
    held.extend(take() for _ in range(max(0, fitted - 1)))
    return {"fitted": fitted, "again": len(held), "error": type(error).__name__, "bases": [b.__name__ for b in type(error).__mro__],
            "text": " ".join(str(error).split())[:300]}


def judge(name, run, error, least=10):
    """Most of the quota was usable, none beyond it, and the error was the framework's own."""
    most = QUOTA // BLOCK
    right = least <= run["fitted"] <= most and run["again"] >= run["fitted"] - 1 and error in " ".join([*run["bases"], run["text"]])
    record(name, run["fitted"], "x 256 MiB of 4 GiB", right, f"{least}..{most}, {error}", run=run)


# ---- PyTorch --------------------------------------------------------------------------------------------------------------------------


def run_torch():
    import torch

    free, total = torch.cuda.mem_get_info()
    a = torch.full((512, 512), 2.0, device="cuda")
    product = (a @ a)[0, 0].item()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    captured = ""
    try:
        x = torch.ones(1024, device="cuda")
        with torch.cuda.stream(stream):
            x.add_(1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            x.mul_(2)
        graph.replay()
        captured = x.sum().item()
    except RuntimeError as e:
        captured = str(e)[:200]
    filled = fill(lambda: torch.empty(BLOCK, dtype=torch.uint8, device="cuda"), torch.cuda.OutOfMemoryError)
    torch.cuda.empty_cache()
    say(version=torch.__version__, free=free, total=total, device_total=torch.cuda.get_device_properties(0).total_memory, product=product,
        captured=captured, after=torch.cuda.mem_get_info()[0], **filled)


def run_torch_rate(seconds):
    """Matrix products a second."""
    import torch

    a = torch.randn(4096, 4096, device="cuda")

    def run(until):
        done, start = 0, time.monotonic()
        while time.monotonic() - start < until:
            for _ in range(10):
                a @ a
            torch.cuda.synchronize()
            done += 10
        return done / (time.monotonic() - start)

    run(0.5)
    say(rate=run(float(seconds)))


def torch():
    if missing("torch"):
        return
    for name, conf in (("torch", ""), ("torch expandable", "expandable_segments:True"), ("torch cudaMallocAsync", "backend:cudaMallocAsync")):
        with part(name):
            run = once(limited("4GiB", **({"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {})), "frameworks", "run_torch")
            judge(name, run, "OutOfMemoryError")
            right = run["total"] == run["device_total"] == QUOTA and run["product"] == 2048 and run["captured"] == 4096
            record(f"{name} view", run["total"] // MIB, "MiB", right, "4096 by mem_get_info and device properties; results right", run=run)


def torch_share():
    if missing("torch"):
        return
    plain = [once(bare(), "frameworks", "run_torch_rate", 1.0)["rate"]]
    slow = once(limited(compute="30%"), "frameworks", "run_torch_rate", 3.0)["rate"]
    plain.append(once(bare(), "frameworks", "run_torch_rate", 1.0)["rate"])
    got = 100 * slow / statistics.mean(plain)
    record("torch matmul at 30 %", round(got, 1), "% of the bare rate", 26 <= got <= 33, "26..33", bare=plain, limited=slow)


# ---- others ---------------------------------------------------------------------------------------------------------------------------


def run_cupy():
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    value = float((cupy.arange(10, dtype=cupy.float32) * 2).sum())
    pool = cupy.get_default_memory_pool()
    filled = fill(lambda: cupy.empty(BLOCK, dtype=cupy.uint8), cupy.cuda.memory.OutOfMemoryError)
    pool.free_all_blocks()
    say(version=cupy.__version__, free=free, total=total, value=value, **filled)


def cupy():
    if missing("cupy"):
        return
    run = once(limited("4GiB"), "frameworks", "run_cupy")
    judge("cupy", run, "OutOfMemoryError")
    record("cupy view", run["total"] // MIB, "MiB", run["total"] == QUOTA and run["value"] == 90, "4096; results right")


def run_jax():
    import jax
    import jax.numpy as np

    value = float((np.ones((256, 256)) @ np.ones((256, 256)))[0, 0])
    stats = jax.devices()[0].memory_stats() or {}
    filled = fill(lambda: jax.device_put(np.zeros(BLOCK // 4, dtype=np.float32)).block_until_ready(), RuntimeError)
    say(version=jax.__version__, platform=jax.devices()[0].platform, value=value, limit=stats.get("bytes_limit"), **filled)


def jax():
    if missing("jax", "jaxlib"):
        return
    for name, more in (("jax", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}), ("jax preallocated", {})):
        with part(name):
            run = once(limited("4GiB", **more), "frameworks", "run_jax")
            if run["platform"] not in ("gpu", "cuda"):
                skip(name, f"its platform here is {run['platform']}")
                continue
            judge(name, run, "RESOURCE_EXHAUSTED", least=6)
            record(f"{name} view", run["limit"], "B", run["value"] == 256 and (run["limit"] or 0) <= QUOTA, "at most the quota; results right")


def run_onnxruntime():
    import numpy
    import onnx.helper as h
    import onnxruntime

    getattr(onnxruntime, "preload_dlls", lambda: None)()

    def session(shape):
        x, y = (h.make_tensor_value_info(n, 1, shape) for n in "xy")
        graph = h.make_graph([h.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9).SerializeToString()
        return onnxruntime.InferenceSession(model, providers=["CUDAExecutionProvider"])

    small = session([4, 4])
    value = float(small.run(None, {"x": numpy.ones((4, 4), numpy.float32)})[0].sum())
    error = ""
    try:
        session([3, GIB // 4]).run(None, {"x": numpy.zeros((3, GIB // 4), numpy.float32)})  # 3 GiB in, 3 GiB out
    except Exception as e:  # its errors share no narrower type
        error = str(e)[-300:]
    say(version=onnxruntime.__version__, providers=small.get_providers(), value=value, error=error)


def onnxruntime():
    if missing("onnxruntime", "onnx"):
        return
    run = once(limited("4GiB"), "frameworks", "run_onnxruntime")
    if "CUDAExecutionProvider" not in run["providers"]:
        return skip("onnxruntime", f"its providers here are {run['providers']}")
    right = run["value"] == 32 and ("memory" in run["error"].lower() or "alloc" in run["error"].lower())
    record("onnxruntime", run["error"][-80:], "", right, "a small session runs, one of 6 GiB ends in its own error", run=run)


def run_triton():
    import torch
    import triton
    import triton_kernel

    x = torch.arange(4096, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    triton_kernel.double[(4,)](x, y, x.numel(), BLOCK=1024)
    say(version=triton.__version__, right=bool((y == 2 * x).all()))


def triton():
    if missing("triton", "torch"):
        return
    run = once(limited("4GiB", "50%"), "frameworks", "run_triton")
    record("triton", run["version"], "", run["right"], "a compiled kernel gives the right result")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main(globals())
