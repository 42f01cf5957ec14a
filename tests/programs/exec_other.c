// Holds memory, then becomes a program that never touches CUDA. The driver has given the memory back; so must the quota.
//
//   exec_other SECONDS
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    CUdeviceptr pointer;
    MUST(argc == 2);
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&pointer, 900 * MIB));
    printf("held\n");
    fflush(stdout);
    execlp("sleep", "sleep", argv[1], NULL);
    return 1;
}
