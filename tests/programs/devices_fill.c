// Fills every device that the program sees, half by plain memory and half by physical memory that names the device by its
// number, and says how much of each fitted.
//
//   devices_fill
// link: -ldl
#include "cu.h"

int main(void) {
    int count = 0;
    int result = CU(cuInit)(0);
    printf("init=%d\n", result);
    if (result != CUDA_SUCCESS) return 0;
    OK(CU(cuDeviceGetCount)(&count));
    printf("devices=%d\n", count);
    CUcontext contexts[16];
    for (int i = 0; i < count; i++) OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
    // The current context is the first device's throughout: physical memory goes where it is told to.
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    for (int i = 0; i < count; i++) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, i}};
        CUmemGenericAllocationHandle handle;
        for (int j = 0; j < 2; j++) OK(CU(cuMemCreate)(&handle, 64 * MIB, &prop, 0));
    }
    for (int i = 0; i < count; i++) {
        CUdeviceptr block;
        CUuuid uuid;
        int blocks = 0;
        OK(CU(cuCtxSetCurrent)(contexts[i]));
        while (blocks < 4096 && (result = CU(cuMemAlloc_v2)(&block, 64 * MIB)) == CUDA_SUCCESS) blocks++;
        int ordinal = -1;
        if (blocks) OK(CU(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
        OK(CU(cuDeviceGetUuid_v2)(&uuid, i));
        printf("result%d=%d\nfilled%d=%d\nordinal%d=%d\nuuid%d=GPU-", i, result, i, 2 + blocks, i, ordinal, i);
        for (int j = 0; j < 16; j++) printf("%s%02x", j == 4 || j == 6 || j == 8 || j == 10 ? "-" : "", uuid.bytes[j]);
        printf("\n");
    }
    stop_here("ready");
    return 0;
}
