// Holds as many MiB as asked until its standard input ends.
//
//   hold MIB
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    CUdeviceptr pointer;
    cu_begin();
    int result = CU(cuMemAlloc_v2)(&pointer, strtoul(argv[1], NULL, 10) * MIB);
    printf("result=%d\n", result);
    stop_here("ready");
    return 0;
}
