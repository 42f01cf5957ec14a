// A program that does not look at what cuInit answered, and goes on. "init" calls cuInit as everybody does; "past" has
// the driver initialised, and a context made, by functions that it found without the preloaded library.
// link: -ldl
#include "cu.h"

// The driver's own function: by the C library's dlsym, which dlvsym finds past a preloaded one.
static void *past(const char *name) {
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    MUST(real != NULL);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    MUST(driver != NULL);
    void *function = real(driver, name);
    MUST(function != NULL);
    return function;
}

#define PAST(name) ((__typeof__(name) *)past(#name))

int main(int argc, char **argv) {
    MUST(argc == 2);
    CUcontext context = NULL;
    if (strcmp(argv[1], "past") == 0) {
        OK(PAST(cuInit)(0));
        OK(PAST(cuCtxCreate_v2)(&context, 0, 0));
    } else {
        printf("init=%d\n", CU(cuInit)(0));
        printf("again=%d\n", CU(cuInit)(0));
    }
    CUcontext another = NULL;
    printf("context=%d\n", CU(cuCtxCreate_v2)(&another, 0, 0));
    printf("primary=%d\n", CU(cuDevicePrimaryCtxRetain)(&another, 0));
    CUdeviceptr address = 0;
    printf("linear=%d\n", CU(cuMemAlloc_v2)(&address, 4 * GIB));
    printf("managed=%d\n", CU(cuMemAllocManaged)(&address, 4 * GIB, CU_MEM_ATTACH_GLOBAL));
    printf("async=%d\n", CU(cuMemAllocAsync)(&address, 4 * GIB, NULL));
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    CUmemGenericAllocationHandle physical;
    printf("physical=%d\n", CU(cuMemCreate)(&physical, 4 * GIB, &prop, 0));
    printf("launch=%d\n", CU(cuLaunchKernel)(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    size_t free, total;
    printf("info=%d\n", CU(cuMemGetInfo_v2)(&free, &total));
    return 0;
}
