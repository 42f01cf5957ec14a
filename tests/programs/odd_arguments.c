// Calls with arguments that are wrong, missing or of another kind. Every answer is the driver's.
// link: -ldl
#include "cu.h"

static void say(const char *what, int result) { printf("%s: %d\n", what, result); }

int main(void) {
    CUdeviceptr pointer = 0, pitched = 0, host_view = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUcontext context;
    CUarray array;
    void *host = NULL;
    size_t free_bytes = 0, total = 0, pitch = 0;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

    say("alloc before init", CU(cuMemAlloc_v2)(&pointer, 4096));
    say("free before init", CU(cuMemFree_v2)(0));
    say("info before init", CU(cuMemGetInfo_v2)(&free_bytes, &total));
    say("total before init", CU(cuDeviceTotalMem_v2)(&total, 0));
    say("init with flags", CU(cuInit)(1));
    OK(CU(cuInit)(0));
    say("total, no place", CU(cuDeviceTotalMem_v2)(NULL, 0));
    say("total, no such device", CU(cuDeviceTotalMem_v2)(&total, 99));
    say("total, negative device", CU(cuDeviceTotalMem_v2)(&total, -1));
    say("alloc without context", CU(cuMemAlloc_v2)(&pointer, 4096));
    say("managed without context", CU(cuMemAllocManaged)(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    say("info without context", CU(cuMemGetInfo_v2)(&free_bytes, &total));
    say("launch without context", CU(cuLaunchKernel)(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));

    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    say("alloc, no place", CU(cuMemAlloc_v2)(NULL, 4096));
    say("alloc of nothing", CU(cuMemAlloc_v2)(&pointer, 0));
    say("alloc of everything", CU(cuMemAlloc_v2)(&pointer, SIZE_MAX));
    say("alloc of nearly everything", CU(cuMemAlloc_v2)(&pointer, SIZE_MAX - 511));
    say("alloc of half of everything", CU(cuMemAlloc_v2)(&pointer, SIZE_MAX / 2));
    say("pitched, no place", CU(cuMemAllocPitch_v2)(NULL, &pitch, 100, 100, 4));
    say("pitched, no pitch", CU(cuMemAllocPitch_v2)(&pitched, NULL, 100, 100, 4));
    say("pitched, odd element", CU(cuMemAllocPitch_v2)(&pitched, &pitch, 100, 100, 3));
    say("pitched, no rows", CU(cuMemAllocPitch_v2)(&pitched, &pitch, 100, 0, 4));
    say("pitched, overflow", CU(cuMemAllocPitch_v2)(&pitched, &pitch, SIZE_MAX / 2, 4, 4));
    say("managed, no place", CU(cuMemAllocManaged)(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
    say("managed of nothing", CU(cuMemAllocManaged)(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
    say("managed, odd flags", CU(cuMemAllocManaged)(&pointer, 4096, 77));
    say("info, no places", CU(cuMemGetInfo_v2)(NULL, NULL));
    say("info, free only", CU(cuMemGetInfo_v2)(&free_bytes, NULL));
    say("info, total only", CU(cuMemGetInfo_v2)(NULL, &total));
    say("create, no place", CU(cuMemCreate)(NULL, 2 * MIB, &prop, 0));
    say("create, no properties", CU(cuMemCreate)(&handle, 2 * MIB, NULL, 0));
    say("create, odd size", CU(cuMemCreate)(&handle, 1000, &prop, 0));
    say("create, odd flags", CU(cuMemCreate)(&handle, 2 * MIB, &prop, 1));
    prop.location.id = 99;
    say("create, no such device", CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
    say("release of no handle", CU(cuMemRelease)(12345));
    say("async, no place", CU(cuMemAllocAsync)(NULL, 4096, NULL));
    say("array, no description", CU(cuArrayCreate_v2)(&array, NULL));
    say("array, no place", CU(cuArrayCreate_v2)(NULL, &(CUDA_ARRAY_DESCRIPTOR){8, 8, CU_AD_FORMAT_FLOAT, 1}));
    say("array of nothing", CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){0, 0, CU_AD_FORMAT_FLOAT, 1}));

    say("free of nothing", CU(cuMemFree_v2)(0));
    say("free of nonsense", CU(cuMemFree_v2)(0x1234));
    OK(CU(cuMemAlloc_v2)(&pointer, 4096));
    say("free of the inside", CU(cuMemFree_v2)(pointer + 512));
    say("free", CU(cuMemFree_v2)(pointer));
    say("free again", CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemHostAlloc)(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(CU(cuMemHostGetDevicePointer_v2)(&host_view, host, 0));
    say("free of host memory", CU(cuMemFree_v2)((CUdeviceptr)(uintptr_t)host));
    say("free of host memory by its own call", CU(cuMemFreeHost)(host));
    say("free of nothing, in order", CU(cuMemFreeAsync)(0, NULL));

    say("launch of nothing", CU(cuLaunchKernel)(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    say("launch of an empty grid", CU(cuLaunchKernel)(cu_kernel("sim_work"), 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    say("launch with no configuration", CU(cuLaunchKernelEx)(NULL, cu_kernel("sim_work"), NULL, NULL));
    say("launch of no graph", CU(cuGraphLaunch)(NULL, NULL));
    OK(CU(cuCtxSynchronize)());

    // And nothing of all this is left in the account.
    OK(CU(cuMemAlloc_v2)(&pointer, 1 * GIB));
    return 0;
}
