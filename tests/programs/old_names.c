// Names that a driver of its time lacks are absent, and a program linked to ours still loads.
// link: -lcuda -ldl
#include "cu.h"

int main(void) {
    printf("cuMemAllocAsync by look-up: %s\n", dlsym(cu_driver(), "cuMemAllocAsync") ? "there" : "absent");
    printf("cuGetProcAddress_v2 by look-up: %s\n", dlsym(cu_driver(), "cuGetProcAddress_v2") ? "there" : "absent");
    CUresult (*volatile linked)(CUdeviceptr *, void *, unsigned) = cuIpcOpenMemHandle_v2;
    printf("cuIpcOpenMemHandle_v2 is linked: %s\n", linked ? "yes" : "no");
    OK(cuInit(0));
    CUcontext context;
    CUdeviceptr pointer;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    int blocks = 0;
    while (blocks < 100 && cuMemAlloc_v2(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
