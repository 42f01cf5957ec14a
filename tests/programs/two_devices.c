// Usage goes to the device that owns the memory, whichever context is current.
// link: -ldl
#include "cu.h"

static CUcontext contexts[2];

static size_t free_on(int device) {
    size_t free_bytes, total;
    OK(CU(cuCtxPushCurrent_v2)(contexts[device]));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    OK(CU(cuCtxPopCurrent_v2)(NULL));
    return free_bytes / MIB;
}

static void say(const char *when) { printf("%s=%zu %zu\n", when, free_on(0), free_on(1)); }

int main(void) {
    CUdeviceptr first, second, third;
    CUmemGenericAllocationHandle handle;
    OK(CU(cuInit)(0));
    for (int i = 0; i < 2; i++) OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
    say("begin");
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    OK(CU(cuMemAlloc_v2)(&first, 1000 * MIB));
    OK(CU(cuCtxSetCurrent)(contexts[1]));
    OK(CU(cuMemAlloc_v2)(&second, 100 * MIB));
    say("held");
    // The first device is nearly full, the second is not.
    OK(CU(cuMemAlloc_v2)(&third, 500 * MIB));
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&third, 500 * MIB));
    OK(CU(cuCtxSetCurrent)(contexts[1]));
    // Free of the first device's memory while the second's context is current.
    OK(CU(cuMemFree_v2)(first));
    say("freed");
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    OK(CU(cuMemAlloc_v2)(&first, 1000 * MIB));
    // A physical allocation belongs to the device it names.
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    OK(CU(cuMemCreate)(&handle, 400 * MIB, &prop, 0));
    say("created");
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate)(&handle, 400 * MIB, &prop, 0));
    return 0;
}
