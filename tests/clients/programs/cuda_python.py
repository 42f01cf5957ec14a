"""cuda-python's driver bindings: every plain way of taking device memory, to the limit."""
import sys
import time

from cuda.bindings import driver

from report import BLOCK, MIB, account, fill, report


class OutOfMemory(Exception):
    pass


def ok(answer):
    code, *values = answer
    if code == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise OutOfMemory(code.name)
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(code.name)
    return values[0] if len(values) == 1 else values


class Block:
    """Device memory, given back when it is dropped."""

    def __init__(self, take, give):
        self.memory, self.give = ok(take()), give

    def __del__(self):
        if hasattr(self, "memory"):
            ok(self.give(self.memory))


class Mapping:
    """The same through virtual memory management."""

    def __init__(self, size):
        prop = driver.CUmemAllocationProp()
        prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = 0
        access = driver.CUmemAccessDesc()
        access.location = prop.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self.size, self.address = size, None
        self.handle = ok(driver.cuMemCreate(size, prop, 0))
        self.address = ok(driver.cuMemAddressReserve(size, 0, 0, 0))
        ok(driver.cuMemMap(self.address, size, 0, self.handle, 0))
        ok(driver.cuMemSetAccess(self.address, size, [access], 1))

    def __del__(self):
        if getattr(self, "address", None) is None:
            return
        ok(driver.cuMemUnmap(self.address, self.size))
        ok(driver.cuMemAddressFree(self.address, self.size))
        ok(driver.cuMemRelease(self.handle))


def memory():
    stream = ok(driver.cuStreamCreate(0))
    ways = {
        "linear": lambda: Block(lambda: driver.cuMemAlloc(BLOCK), driver.cuMemFree),
        "managed": lambda: Block(lambda: driver.cuMemAllocManaged(BLOCK, 1), driver.cuMemFree),
        "async": lambda: Block(lambda: driver.cuMemAllocAsync(BLOCK, stream), lambda p: driver.cuMemFreeAsync(p, stream)),
        "vmm": lambda: Mapping(BLOCK),
    }
    figures = {name: fill(take, OutOfMemory, lambda: ok(driver.cuStreamSynchronize(stream))) for name, take in ways.items()}
    # What the program wrote must be what it reads, wherever the memory came from.
    block = Block(lambda: driver.cuMemAlloc(MIB), driver.cuMemFree)
    sent, got = bytes(range(256)) * 4096, bytearray(MIB)
    ok(driver.cuMemcpyHtoD(block.memory, sent, MIB))
    ok(driver.cuMemcpyDtoH(got, block.memory, MIB))
    return figures | {"data_survived": bytes(got) == sent}


def compute(kernels, seconds):
    """Launches kernels of 100 us back to back for `seconds`, and says what share of the GPU they got."""
    import ctypes

    with open(kernels, "rb") as f:
        module = ok(driver.cuModuleLoadData(f.read() + b"\0"))
    work = ok(driver.cuModuleGetFunction(module, b"sim_work"))
    launch = lambda: ok(driver.cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, 0, ((100_000,), (ctypes.c_uint64,)), 0))
    launch()
    ok(driver.cuCtxSynchronize())
    busy, start = account()["busy_ns"], time.monotonic()
    launched = 0
    while time.monotonic() - start < seconds:
        for _ in range(20):
            launch()
        launched += 20
        if launched % 200 == 0:
            ok(driver.cuCtxSynchronize())
    ok(driver.cuCtxSynchronize())
    wall = time.monotonic() - start
    return {"share": (account()["busy_ns"] - busy) / 1e9 / wall, "launched": launched, "seconds": wall}


ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
free, total = ok(driver.cuMemGetInfo())
seen = {"free": free, "total": total, "device_total": ok(driver.cuDeviceTotalMem(device))}
report(**seen, **(compute(sys.argv[2], float(sys.argv[3])) if sys.argv[1] == "compute" else memory()))
