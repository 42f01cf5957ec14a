"""The driver API through ctypes. Everything comes from dlopen and dlsym, so a preloaded library is met as any client meets it."""
import ctypes
import time
from ctypes import byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p

from lab import ROOT

OUT_OF_MEMORY, NOT_READY = 2, 600
lib = ctypes.CDLL("libcuda.so.1")


class CudaError(RuntimeError):
    def __init__(self, name, code):
        super().__init__(f"{name}: {code} {error_name(code)}")
        self.code = code


def error_name(code):
    text = c_char_p()
    lib.cuGetErrorName(code, byref(text))
    return (text.value or b"?").decode()


def code(name, *args):
    """What a function returns. Integers travel as 64 bits, which registers and stack slots of both ABIs hold for every integer type."""
    return getattr(lib, name)(*[c_uint64(a) if isinstance(a, int) else a for a in args])


def call(name, *args):
    answer = code(name, *args)
    if answer:
        raise CudaError(name, answer)


def get(name, *args):
    """What a function leaves through its first parameter."""
    value = c_uint64()
    call(name, byref(value), *args)
    return value.value


def get_last(name, *args):
    """What a function leaves through its last parameter."""
    value = c_uint64()
    call(name, *args, byref(value))
    return value.value


def memory_info():
    free, total = c_uint64(), c_uint64()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value, total.value


def attribute(number):
    value = c_int()
    call("cuDeviceGetAttribute", byref(value), number, 0)
    return value.value


def uuid():
    raw = ctypes.create_string_buffer(16)
    call("cuDeviceGetUuid_v2", raw, 0)
    digits = raw.raw.hex()
    return "GPU-" + "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def open_context():
    call("cuInit", 0)
    context = get("cuDevicePrimaryCtxRetain", 0)
    call("cuCtxSetCurrent", context)
    return context


class Kernels:
    """An image and its functions; by default the built-in kernels that the simulator and real GPUs both run."""

    def __init__(self, image=None):
        if image is None:
            with open(f"{ROOT}/gpu-sim/kernels.ptx", "rb") as f:
                image = f.read()
        self.module = get("cuModuleLoadData", c_char_p(image))
        self.functions = {}

    def launch(self, name, *args, stream=0, grid=1, block=1):
        """A launch, ready to be called; the arguments are ctypes values, or integers that are 64 bits wide."""
        if name not in self.functions:
            self.functions[name] = get("cuModuleGetFunction", self.module, name.encode())
        return Launch(self.functions[name], args, stream, grid, block)


class Launch:
    def __init__(self, function, args, stream, grid, block):
        self.boxes = [c_uint64(a) if isinstance(a, int) else a for a in args]
        self.params = (c_void_p * max(1, len(args)))(*[ctypes.addressof(b) for b in self.boxes])
        self.arguments = [c_uint64(function), *map(c_uint32, (grid, 1, 1, block, 1, 1, 0)), c_uint64(stream), self.params, c_void_p()]
        self.function = lib.cuLaunchKernel

    def code(self):
        return self.function(*self.arguments)

    def __call__(self):
        answer = self.function(*self.arguments)
        if answer:
            raise CudaError("cuLaunchKernel", answer)


def word(value):
    return c_uint32(value)


class HostWord:
    """A word in pinned host memory that kernels can watch."""

    def __init__(self):
        self.address = get("cuMemHostAlloc", 64, 2)  # mapped into the device
        self.device = get("cuMemHostGetDevicePointer_v2", self.address, 0)
        self.cell = c_uint32.from_address(self.address)
        self.cell.value = 0

    def set(self, value):
        self.cell.value = value


def wait_for(query, seconds):
    """Whether a query (event or stream) came to be ready in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = query()
        if answer != NOT_READY:
            return answer == 0
        time.sleep(0.001)
    return False
