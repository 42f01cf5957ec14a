// Unsets its quota after cuInit, and asks NVML only then.
// link: -ldl
#include "nvml.h"

int main(void) {
    CUdeviceptr held;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&held, 256 * MIB));
    unsetenv("GPU_QUOTA_MEMORY");
    unsetenv("GPU_QUOTA_GROUP");
    unsetenv("GPU_QUOTA_CONTEXT");
    OK(NVML(nvmlInit_v2)());
    nvmlMemory_t memory = nvml_memory(nvml_of(0));
    nvmlProcessInfo_t infos[64];
    unsigned count = 64;
    OK(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(nvml_of(0), &count, infos));
    printf("total=%llu\nused=%llu\nown=%d\n", memory.total / MIB, memory.used / MIB,
           count == 1 && infos[0].pid == (unsigned)getpid());
    return 0;
}
