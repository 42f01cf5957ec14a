// One copy of 1 GiB within the device, and one fill of as much.
// link: -ldl
#include "cu.h"

CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    cu_begin();
    CUdeviceptr from, to;
    OK(CU(cuMemAlloc_v2)(&from, GIB));
    OK(CU(cuMemAlloc_v2)(&to, GIB));
    if (!strcmp(argv[1], "copy")) OK(CU(cuMemcpyDtoD_v2)(to, from, GIB));
    else OK(CU(cuMemsetD8_v2)(to, 7, GIB));
    OK(CU(cuCtxSynchronize)());
    return 0;
}
