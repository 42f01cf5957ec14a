// The driver's and NVML's views of every device, compared byte by byte at each step of a program that fills its memory.
//
//   nvml_agree [alone]
// link: -ldl
#include "nvml.h"

enum { MOST = 8 };
static int count;
static CUcontext contexts[MOST];
static nvmlDevice_t handles[MOST];

static void find(void) {
    for (int i = 0; i < count; i++) handles[i] = nvml_of(i);
}

// Free bytes of a device, the same wherever they are asked for.
static size_t agreed(int i) {
    size_t free_bytes = 0, total = 0, whole = 0;
    OK(CU(cuCtxSetCurrent)(contexts[i]));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    OK(CU(cuDeviceTotalMem_v2)(&whole, i));
    nvmlMemory_t memory = nvml_memory(handles[i]);
    MUST(total == whole && memory.total == total);
    MUST(free_bytes <= total && memory.free == free_bytes);
    return free_bytes;
}

// Whether this process is in a device's list, with so many bytes.
static int listed(int i, unsigned long long bytes) {
    nvmlProcessInfo_t infos[64];
    unsigned number = 64;
    OK(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(handles[i], &number, infos));
    for (unsigned j = 0; j < number; j++)
        if (infos[j].pid == (unsigned)getpid()) return infos[j].used == bytes;
    return bytes == 0;
}

static void say(const char *when) {
    printf("%s=", when);
    for (int i = 0; i < count; i++) printf("%s%zu", i ? " " : "", agreed(i) / MIB);
    printf("\n");
}

int main(int argc, char **argv) {
    (void)argv;
    // NVML first, as many programs do.
    OK(NVML(nvmlInit_v2)());
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceGetCount)(&count));
    MUST(count > 0 && count <= MOST);
    find();
    for (int i = 0; i < count; i++) OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
    say("begin");
    CUdeviceptr linear[MOST] = {0}, rest[MOST] = {0}, none;
    for (int i = 0; i < count; i++) {
        OK(CU(cuCtxSetCurrent)(contexts[i]));
        OK(CU(cuMemAlloc_v2)(&linear[i], (100 + 10 * (size_t)i) * MIB));
        say("linear");
    }
    for (int i = 0; i < count; i++) {
        CUdeviceptr pooled;
        size_t before = agreed(i);
        OK(CU(cuMemAllocAsync)(&pooled, 48 * MIB, NULL));
        agreed(i);
        OK(CU(cuMemFreeAsync)(pooled, NULL));
        OK(CU(cuCtxSynchronize)());
        CUmemoryPool pool;
        OK(CU(cuDeviceGetDefaultMemPool)(&pool, i));
        OK(CU(cuMemPoolTrimTo)(pool, 0));
        MUST(agreed(i) == before);
    }
    for (int i = 0; i < count; i++) {
        size_t free_bytes = agreed(i);
        if (!free_bytes) continue;
        OK(CU(cuMemAlloc_v2)(&rest[i], free_bytes));
        MUST(agreed(i) == 0);
        IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&none, 1));
        MUST(agreed(i) == 0);
    }
    say("full");
    // Under a quota what is used is this process's alone, to the byte.
    for (int i = 0; i < count; i++) {
        nvmlMemory_t memory = nvml_memory(handles[i]);
        if (argc > 1) MUST(listed(i, memory.used));
    }
    // Sessions of NVML come and go; each counts.
    OK(NVML(nvmlInit_v2)());
    OK(NVML(nvmlShutdown)());
    say("nested");
    OK(NVML(nvmlShutdown)());
    IS(NVML_ERROR_UNINITIALIZED, NVML(nvmlDeviceGetMemoryInfo)(handles[0], &(nvmlMemory_t){0}));
    OK(NVML(nvmlInit_v2)());
    find();
    say("again");
    for (int i = 0; i < count; i++) {
        OK(CU(cuMemFree_v2)(linear[i]));
        say("freed");
        if (rest[i]) OK(CU(cuMemFree_v2)(rest[i]));
    }
    say("end");
    OK(NVML(nvmlShutdown)());
    return 0;
}
