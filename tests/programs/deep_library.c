// Opened with RTLD_DEEPBIND: its own dependencies come before anything preloaded.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>

int deep_alloc(void) {
    unsigned long long pointer = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return -1;
    int (*alloc)(unsigned long long *, unsigned long) = (int (*)(unsigned long long *, unsigned long))dlsym(driver, "cuMemAlloc_v2");
    int (*release)(unsigned long long) = (int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2");
    if (!alloc || !release) return -2;
    int result = alloc(&pointer, 4096);
    return result ? result : release(pointer);
}
