"""NVML through ctypes: memory and processes of one device, as nobody's quota changes them (checks themselves are not preloaded)."""
import ctypes
from ctypes import byref, c_char_p, c_uint, c_uint64, c_void_p


class MemoryV1(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("total", "free", "used")]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", c_uint), *((name, c_uint64) for name in ("total", "reserved", "free", "used"))]


class Process(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("used", c_uint64), ("instance", c_uint), ("compute_instance", c_uint)]


class NvmlError(RuntimeError):
    pass


class Nvml:
    def __init__(self, uuid=None):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        self.device = c_void_p()
        if uuid is None:
            self.call("nvmlDeviceGetHandleByIndex_v2", 0, byref(self.device))
        else:
            try:
                self.call("nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(self.device))
            except NvmlError:  # a MIG instance goes by the same digits
                self.call("nvmlDeviceGetHandleByUUID", c_char_p(uuid.replace("GPU-", "MIG-").encode()), byref(self.device))

    def call(self, name, *args):
        answer = getattr(self.lib, name)(*args)
        if answer:
            raise NvmlError(f"{name}: {answer}")

    def memory(self):
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        try:
            self.call("nvmlDeviceGetMemoryInfo_v2", self.device, byref(memory))
            return {name: getattr(memory, name) for name in ("total", "reserved", "free", "used")}
        except (AttributeError, NvmlError):  # an old driver
            memory = MemoryV1()
            self.call("nvmlDeviceGetMemoryInfo", self.device, byref(memory))
            return {name: getattr(memory, name) for name in ("total", "free", "used")}

    def used(self):
        return self.memory()["used"]

    def processes(self):
        """Bytes by pid, in the pid namespace that NVML reports; None where it does not tell."""
        count = c_uint(256)
        table = (Process * count.value)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.device, byref(count), table)
        return {p.pid: p.used if p.used < 1 << 60 else None for p in table[: count.value]}

    def text(self, name, *args):
        buffer = ctypes.create_string_buffer(128)
        self.call(name, *args, buffer, 128)
        return buffer.value.decode()

    def number(self, name):
        value = c_uint()
        self.call(name, self.device, byref(value))
        return value.value
