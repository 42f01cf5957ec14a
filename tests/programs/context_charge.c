// What a context costs is charged once, however often it is retained, and goes with it.
// link: -ldl
#include "cu.h"

static size_t free_mib(void) {
    size_t free_bytes, total;
    int result = CU(cuMemGetInfo_v2)(&free_bytes, &total);
    if (result) {
        printf("info=%d\n", result);
        return 0;
    }
    return free_bytes / MIB;
}

int main(void) {
    CUcontext context;
    OK(CU(cuInit)(0));
    for (int i = 0; i < 3; i++) OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    printf("retained=%zu\n", free_mib());
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    printf("released once=%zu\n", free_mib());
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    stop_here("released");
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    CUdeviceptr pointer;
    OK(CU(cuMemAlloc_v2)(&pointer, 256 * MIB));
    printf("retained again=%zu\n", free_mib());
    // A reset drops the context's memory with it.
    OK(CU(cuDevicePrimaryCtxReset_v2)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    printf("reset=%zu\n", free_mib());
    return 0;
}
