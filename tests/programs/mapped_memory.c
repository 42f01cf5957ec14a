// Physical memory by cuMemCreate: charged until the last handle and the last mapping are gone; host
// memory is not charged.
// link: -ldl
#include "cu.h"

static void say(const char *when) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("%s=%zu\n", when, free_bytes / MIB);
}

int main(void) {
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAllocationProp host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUmemAllocationProp numa = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again, other;
    CUdeviceptr address;
    cu_begin();
    say("begin");
    OK(CU(cuMemCreate)(&handle, 512 * MIB, &device, 0));
    say("created");
    OK(CU(cuMemRelease)(handle));
    say("released unmapped");

    OK(CU(cuMemCreate)(&handle, 512 * MIB, &device, 0));
    OK(CU(cuMemAddressReserve)(&address, 512 * MIB, 0, 0, 0));
    OK(CU(cuMemMap)(address, 512 * MIB, 0, handle, 0));
    OK(CU(cuMemSetAccess)(address, 512 * MIB, &access, 1));
    say("mapped");
    OK(CU(cuMemRelease)(handle));
    say("released while mapped");
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate)(&other, 600 * MIB, &device, 0));
    // Another reference, by the address.
    OK(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)address));
    OK(CU(cuMemUnmap)(address, 512 * MIB));
    say("unmapped while retained");
    OK(CU(cuMemRelease)(again));
    say("all gone");
    OK(CU(cuMemAddressFree)(address, 512 * MIB));

    // More than the quota, but not of the device.
    int result = CU(cuMemCreate)(&other, 2048 * MIB, &host, 0);
    printf("host=%s\n", result == CUDA_ERROR_OUT_OF_MEMORY ? "refused" : "not refused");
    say("host created");
    if (result == CUDA_SUCCESS) OK(CU(cuMemRelease)(other));
    result = CU(cuMemCreate)(&other, 2048 * MIB, &numa, 0);
    printf("numa=%s\n", result == CUDA_ERROR_OUT_OF_MEMORY ? "refused" : "not refused");
    if (result == CUDA_SUCCESS) OK(CU(cuMemRelease)(other));
    say("end");
    return 0;
}
