// Opened with RTLD_DEEPBIND: its own dependencies come before anything preloaded.
// deep_blocks() says how many blocks of 256 MiB it gets.
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

int deep_blocks(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return -1;
    int (*alloc)(unsigned long long *, unsigned long) = (int (*)(unsigned long long *, unsigned long))dlsym(driver, "cuMemAlloc_v2");
    int (*release)(unsigned long long) = (int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2");
    unsigned long long held[200];
    int blocks = 0;
    while (blocks < 200 && alloc(&held[blocks], 256ul << 20) == 0) ++blocks;
    for (int i = 0; i < blocks; ++i)
        if (release(held[i])) return -2;
    return blocks;
}
