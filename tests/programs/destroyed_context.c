// A context's memory goes with the context, in the account as well.
// link: -ldl
#include "cu.h"

int main(void) {
    CUcontext first, second;
    CUdeviceptr pointer;
    size_t free_bytes, total;
    OK(CU(cuInit)(0));
    OK(CU(cuCtxCreate_v2)(&first, 0, 0));
    OK(CU(cuCtxCreate_v2)(&second, 0, 0));
    OK(CU(cuMemAlloc_v2)(&pointer, 900 * MIB));
    OK(CU(cuCtxSetCurrent)(first));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&pointer, 900 * MIB));
    OK(CU(cuCtxDestroy_v2)(second));
    OK(CU(cuCtxSetCurrent)(first));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("free=%zu\n", free_bytes / MIB);
    OK(CU(cuMemAlloc_v2)(&pointer, 900 * MIB));
    return 0;
}
