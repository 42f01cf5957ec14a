// Calls from before any library's constructor has run, and from a constructor.
// link: -ldl
#include "cu.h"

static int early_init = -1, early_alloc = -1;

static void first_of_all(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    CUdeviceptr pointer;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*alloc)(CUdeviceptr *, size_t) = driver ? (int (*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2") : NULL;
    if (init) early_init = init(0);
    if (alloc) early_alloc = alloc(&pointer, 4096);
}
__attribute__((section(".preinit_array"), used)) static void (*const before)(int, char **, char **) = first_of_all;

static int constructed = -1;
__attribute__((constructor)) static void construct(void) {
    size_t total = 0;
    constructed = CU(cuDeviceTotalMem_v2)(&total, 0);
    printf("total in a constructor: %zu MiB\n", total / MIB);
}

int main(void) {
    CUdeviceptr pointer;
    int blocks = 0;
    printf("init %d, alloc %d, constructed %d\n", early_init, early_alloc, constructed);
    cu_begin();
    while (blocks < 100 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
