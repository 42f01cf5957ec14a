"""Memory quotas: every way of taking device memory to the limit, groups, fork. `memory.py limits|groups|fork`; the rest are workers."""
import os
import struct
import sys
from ctypes import byref, c_uint64

import cuda
from lab import GIB, MIB, Worker, bare, limited, main, new_group, once, part, record, say

QUOTA, BLOCK = GIB, 256 * MIB
DEVICE_PINNED = struct.pack("iiii", 1, 0, 1, 0)  # type pinned, no handle type, location: device 0


# ---- ways of taking memory: each class takes one block of `size` bytes by the program's own reckoning --------------------------------


class Linear:
    size = BLOCK

    def take(self):
        return cuda.get("cuMemAlloc_v2", BLOCK)

    def give(self, p):
        cuda.call("cuMemFree_v2", p)


class Managed(Linear):
    def take(self):
        return cuda.get("cuMemAllocManaged", BLOCK, 1)


class Pitched(Linear):
    """Rows of 100,000 bytes: what counts is the pitch that the driver chooses."""

    def take(self):
        pitch, rows = c_uint64(), 2048
        p = cuda.get("cuMemAllocPitch_v2", byref(pitch), 100_000, rows, 4)
        self.size = pitch.value * rows
        return p


class Async(Linear):
    """Stream-ordered memory; a free is real once the stream was waited for."""

    def __init__(self):
        self.stream = cuda.get("cuStreamCreate", 1)

    def take(self):
        return cuda.get("cuMemAllocAsync", BLOCK, self.stream)

    def give(self, p):
        cuda.call("cuMemFreeAsync", p, self.stream)
        cuda.call("cuStreamSynchronize", self.stream)


class Pool(Async):
    """The same from a pool of the program's own, which keeps what is freed."""

    def __init__(self):
        super().__init__()
        self.pool = cuda.get("cuMemPoolCreate", DEVICE_PINNED + bytes(72))
        cuda.call("cuMemPoolSetAttribute", self.pool, 4, byref(c_uint64(2**64 - 1)))  # release threshold

    def take(self):
        return cuda.get("cuMemAllocFromPoolAsync", BLOCK, self.pool, self.stream)


class Vmm(Linear):
    prop = DEVICE_PINNED + bytes(16)

    def take(self):
        handle = cuda.get("cuMemCreate", BLOCK, self.prop, 0)
        address = cuda.get("cuMemAddressReserve", BLOCK, 0, 0, 0)
        cuda.call("cuMemMap", address, BLOCK, 0, handle, 0)
        cuda.call("cuMemSetAccess", address, BLOCK, struct.pack("iii", 1, 0, 3), 1)
        cuda.call("cuMemRelease", handle)  # the mapping keeps it
        return address

    def give(self, address):
        cuda.call("cuMemUnmap", address, BLOCK)
        cuda.call("cuMemAddressFree", address, BLOCK)


class Array(Linear):
    """8192 x 8192 floats."""

    def take(self):
        return cuda.get("cuArrayCreate_v2", struct.pack("QQII", 8192, 8192, 0x20, 1))

    def give(self, array):
        cuda.call("cuArrayDestroy", array)


class Mipmap(Linear):
    """6144 x 6144 floats with ten levels: a third more than the first level."""

    size = sum(max(1, 6144 >> level) ** 2 * 4 for level in range(10))

    def take(self):
        return cuda.get("cuMipmappedArrayCreate", struct.pack("QQQIII4x", 6144, 6144, 0, 0x20, 1, 0), 10)

    def give(self, array):
        cuda.call("cuMipmappedArrayDestroy", array)


WAYS = {"linear": Linear, "pitched": Pitched, "managed": Managed, "async": Async, "pool": Pool, "vmm": Vmm, "array": Array, "mipmap": Mipmap}


# ---- workers --------------------------------------------------------------------------------------------------------------------------


def fill(way):
    """Takes blocks until one is refused and says so; on a line gives all back, takes as many again, and says so."""
    cuda.open_context()
    way, held = WAYS[way](), []
    free, total = cuda.memory_info()
    device_total = cuda.get("cuDeviceTotalMem_v2", 0)

    def take_more():
        while len(held) < 1000:
            try:
                held.append(way.take())
            except cuda.CudaError as e:
                return e.code

    code = take_more()
    left, _ = cuda.memory_info()
    say(fitted=len(held), size=way.size, code=code, free=free, total=total, device_total=device_total, left=left)
    sys.stdin.readline()
    while held:
        way.give(held.pop())
    say(code=take_more(), fitted=len(held))
    sys.stdin.readline()


def graphs():
    """Graphs with memory nodes: one of 3 blocks, one of 5, and the first again. Says what launching each came to."""
    cuda.open_context()
    stream, seen = cuda.get("cuStreamCreate", 1), []
    for count in (3, 5, 3):
        code = 0
        try:
            cuda.call("cuStreamBeginCapture_v2", stream, 2)  # relaxed
            held = [cuda.get("cuMemAllocAsync", BLOCK, stream) for _ in range(count)]
            for p in held:
                cuda.call("cuMemFreeAsync", p, stream)
            graph = cuda.get_last("cuStreamEndCapture", stream)
            instance = cuda.get("cuGraphInstantiateWithFlags", graph, 0)
            cuda.call("cuGraphLaunch", instance, stream)
            cuda.call("cuStreamSynchronize", stream)
            cuda.call("cuGraphExecDestroy", instance)
            cuda.call("cuGraphDestroy", graph)
        except cuda.CudaError as e:
            code = e.code
        cuda.call("cuDeviceGraphMemTrim", 0)
        seen.append(code)
    say(codes=seen)


def take_all():
    """How many blocks of linear memory fit."""
    fitted = 0
    while cuda.code("cuMemAlloc_v2", byref(c_uint64()), BLOCK) == 0:
        fitted += 1
    return fitted


def forked(when):
    """A fork before or after the first CUDA call; says what parent and child came to."""
    if when == "after":
        cuda.open_context()
        cuda.get("cuMemAlloc_v2", BLOCK)
    (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = cuda.code("cuMemGetInfo_v2", byref(c_uint64()), byref(c_uint64()))
        if when == "before":
            cuda.open_context()
        os.write(to_parent, struct.pack("ii", code, take_all() if when == "before" else 0))
        os.read(from_parent, 1)  # holds what it has until the parent has tried
        os._exit(0)
    child_code, child_fitted = struct.unpack("ii", os.read(from_child, 8))
    if when == "before":
        cuda.open_context()
    parent_fitted = take_all()
    os.write(to_child, b"x")
    os.waitpid(pid, 0)
    free, total = cuda.memory_info()
    say(child_code=child_code, child_fitted=child_fitted, parent_fitted=parent_fitted, free=free, total=total)


# ---- checks ---------------------------------------------------------------------------------------------------------------------------


def limits():
    """Under a quota of 1 GiB each way gets what fits and not one block more, twice."""
    for name in WAYS:
        with part(name), Worker(limited("1GiB"), "memory", "fill", name) as worker:
            first = worker.answer()
            worker.ask()
            second = worker.answer()
            most = QUOTA // first["size"]
            # Where the driver rounds for itself (arrays, pools), one block less is right as well.
            least = most if name in ("linear", "managed", "vmm", "pitched") else most - 1
            right = (least <= first["fitted"] <= most and first["code"] == second["code"] == cuda.OUT_OF_MEMORY
                     and second["fitted"] == first["fitted"] and first["total"] == first["device_total"] == QUOTA)
            record(name, first["fitted"], f"x {first['size'] / MIB:.1f} MiB", right, f"{least}..{most}, error 2, total 1 GiB, twice",
                   first=first, second=second)
    with part("graph"):
        codes = once(limited("1GiB"), "memory", "graphs")["codes"]
        # Noted only where they are not: memory nodes are not charged by every version.
        refused = codes == [0, cuda.OUT_OF_MEMORY, 0]
        record("graph", codes, "codes", refused or None, "3 blocks run, 5 are refused, 3 run again; else graph memory is not limited")


def groups():
    """Two processes of one group share its quota; two groups do not."""
    for name, same, want in (("one group", True, 4), ("two groups", False, 8)):
        with part(name):
            group = new_group()
            envs = [limited("1GiB", group=group if same else new_group()) for _ in range(2)]
            with Worker(envs[0], "memory", "fill", "linear") as a:
                first = a.answer()
                with Worker(envs[1], "memory", "fill", "linear") as b:
                    second = b.answer()
            fitted = first["fitted"] + second["fitted"]
            seen = QUOTA - first["fitted"] * BLOCK if same else QUOTA
            record(name, fitted, "blocks of 256 MiB", fitted == want and second["free"] == seen, f"{want}; the second sees {seen // MIB} MiB free",
                   free=second["free"])
    with part("killed"):
        group = new_group()
        with Worker(limited("1GiB", group=group), "memory", "fill", "linear") as a:
            a.answer()
        after = once(limited("1GiB", group=group), "memory", "fill", "linear")["fitted"]
        record("killed", after, "blocks after the holder was killed", after == 4, "4")


def fork():
    """A child has its own account, and a fork changes no answer of the driver's."""
    for when in ("before", "after"):
        with part(f"fork {when} cuInit"):
            hooked = once(limited("1GiB"), "memory", "forked", when)
            if when == "before":
                fitted = hooked["child_fitted"] + hooked["parent_fitted"]
                record("fork before cuInit", fitted, "blocks by parent and child", fitted == 4, "4", hooked=hooked)
            else:
                # Bare, on a quota-less device, only the child's answer is compared.
                plain = once(bare(), "memory", "forked_code")
                right = hooked["child_code"] == plain["child_code"] and hooked["parent_fitted"] == 3
                record("fork after cuInit", hooked["child_code"], "child's code", right, f"bare {plain['child_code']}; the parent gets 3 more",
                       hooked=hooked)


def forked_code():
    """Bare twin of `forked after`, without filling the device."""
    cuda.open_context()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, struct.pack("i", cuda.code("cuMemGetInfo_v2", byref(c_uint64()), byref(c_uint64()))))
        os._exit(0)
    (code,) = struct.unpack("i", os.read(read, 4))
    os.waitpid(pid, 0)
    say(child_code=code)


def true_use():
    """What NVML says that a process at its limit holds: the quota and its context, no more."""
    import nvml

    cuda.call("cuInit", 0)
    watch = nvml.Nvml(cuda.uuid())
    for way in ("linear", "async", "vmm"):
        with part(way):
            before = watch.used()
            with Worker(bare(), "memory", "context") as idle:
                idle.answer()
                context = watch.used() - before
            with Worker(limited("1GiB"), "memory", "fill", way) as worker:
                worker.answer()
                held = watch.used() - before
            slack = 64 * MIB  # of modules, and of the driver's blocks
            record(way, round(held / MIB), "MiB by NVML at the limit", held <= QUOTA + context + slack, f"at most {(QUOTA + context + slack) // MIB}",
                   context=context)


def context():
    cuda.open_context()
    say(pid=os.getpid())
    sys.stdin.readline()


if __name__ == "__main__":
    main(globals())
