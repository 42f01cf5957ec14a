// An executable that exports names of the driver's: "variables" that it fills by dlsym, as loaders like cuew do, and a function
// that calls the next one of its name.
// cflags: -rdynamic
// link: -ldl
#include <dlfcn.h>
#include <stdio.h>

int (*cuInit)(unsigned);
int (*cuCtxCreate_v2)(void **, unsigned, int);
static int own;

// A wrapper, found before everybody else's.
int cuMemAlloc_v2(unsigned long long *address, unsigned long size) {
    static int (*next)(unsigned long long *, unsigned long);
    if (!next) next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    own++;
    return next(address, size);
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context;
    unsigned long long address;
    int blocks = 0;
    cuInit = dlsym(driver, "cuInit");
    cuCtxCreate_v2 = dlsym(driver, "cuCtxCreate_v2");
    if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0)) return 1;
    while (blocks < 20 && !cuMemAlloc_v2(&address, 256ul << 20)) blocks++;
    printf("blocks=%d\nown=%d\n", blocks, own);
    return 0;
}
