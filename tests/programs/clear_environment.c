// A program that clears or replaces its environment before it initialises CUDA, as privilege-dropping servers do.
//
//   clear_environment keep|clear|unset|null|replace
// link: -ldl
#include "cu.h"

extern char **environ;

int main(int argc, char **argv) {
    MUST(argc == 2);
    static char *other[] = {"PATH=/bin", NULL};
    cu_driver();
    char *sim = strdup(getenv("GPU_SIM"));
    if (!strcmp(argv[1], "clear")) clearenv();
    if (!strcmp(argv[1], "unset")) unsetenv("GPU_QUOTA_MEMORY");
    if (!strcmp(argv[1], "null")) environ = NULL;
    if (!strcmp(argv[1], "replace")) environ = other;
    if (strcmp(argv[1], "keep") && strcmp(argv[1], "null")) setenv("GPU_SIM", sim, 1);
    cu_begin();
    CUdeviceptr pointer;
    int blocks = 0;
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
