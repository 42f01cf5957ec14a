// Closes every descriptor that it did not open, as daemons do, and goes on.
// link: -ldl
#include "cu.h"
#include <sys/syscall.h>

int main(void) {
    CUdeviceptr pointer;
    int blocks = 0;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    if (syscall(SYS_close_range, 3, ~0u, 0))
        for (int i = 3; i < 65536; i++) close(i);
    OK(CU(cuMemFree_v2)(pointer));
    for (int i = 0; i < 50; i++) OK(cu_work(NULL, 1000000));
    while (blocks < 100 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
