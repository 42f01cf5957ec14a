"""nvidia-ml-py: what NVML says of the first device."""
import json

import pynvml as nvml

nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
v1, v2 = nvml.nvmlDeviceGetMemoryInfo(device), nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2)
processes = nvml.nvmlDeviceGetComputeRunningProcesses(device)
print(json.dumps({
    "v1": {name: getattr(v1, name) for name in ("total", "used", "free")},
    "v2": {name: getattr(v2, name) for name in ("total", "used", "free", "reserved")},
    "pids": [p.pid for p in processes],
    "held": {p.pid: p.usedGpuMemory for p in processes},
    "uuid": nvml.nvmlDeviceGetUUID(device),
}))
nvml.nvmlShutdown()
