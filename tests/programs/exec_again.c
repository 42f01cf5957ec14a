// Fills its quota, then becomes another program under the same pid. What the old image held is gone
// with it.
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    CUdeviceptr pointer;
    int blocks = 0;
    cu_begin();
    while (blocks < 100 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("image %s: blocks %d\n", argc > 1 ? argv[1] : "1", blocks);
    fflush(stdout);
    if (argc > 2) return 0;
    char *first[] = {argv[0], "2", NULL}, *second[] = {argv[0], "3", "last", NULL};
    execv("/proc/self/exe", argc > 1 ? second : first);
    return 1;
}
