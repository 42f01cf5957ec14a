"""A client that fills its memory in steps: `steps.py CLIENT`. Each line of stdin names a step; each is answered by a line of what
cuMemGetInfo says after it, in this process, and of the client's own error if there was one."""
import ctypes
import gc
import json
import os
import sys

from report import MIB, account


def cuda_python():
    from cuda.bindings import driver

    class Block:
        def __init__(self, size):
            code, self.memory = driver.cuMemAlloc(size)
            if code != driver.CUresult.CUDA_SUCCESS:
                self.memory = None
                raise MemoryError(code.name)

        def __del__(self):
            if self.memory is not None:
                driver.cuMemFree(self.memory)

    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    return Block, MemoryError, lambda: None


def numba():
    import numpy
    from numba import cuda

    def settle():
        cuda.synchronize()
        cuda.current_context().deallocations.clear()

    cuda.current_context()
    return lambda size: cuda.device_array(size, dtype=numpy.uint8), cuda.cudadrv.driver.CudaAPIError, settle


def tinygrad():
    from tinygrad import Device, dtypes
    from tinygrad.device import Buffer

    def settle():
        Device["CUDA"].synchronize()
        Device["CUDA"].allocator.free_cache()

    Device["CUDA"].synchronize()
    return lambda size: Buffer("CUDA", size, dtypes.uint8).allocate(), MemoryError, settle


def info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    assert code == 0, f"cuMemGetInfo answers {code}"
    return free.value, total.value


take, oom, settle = {"cuda_python": cuda_python, "numba": numba, "tinygrad": tinygrad}[sys.argv[1]]()
driver = ctypes.CDLL("libcuda.so.1")
held = []
for line in sys.stdin:
    error = ""
    try:
        match line.strip():
            case "begin":
                pass
            case "half":
                held.append(take(info()[1] // 2))
            case "full":
                held.append(take(info()[0]))
            case "over":
                held.append(take(MIB))
            case "free":
                held.clear()
                gc.collect()
                settle()
    except oom as e:
        error = " ".join(f"{type(e).__name__}: {e}".split())[:200]
    free, total = info()
    print(json.dumps({"pid": os.getpid(), "free": free, "total": total, "error": error, "account": account()}), flush=True)
