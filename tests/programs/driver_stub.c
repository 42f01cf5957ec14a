// What TensorFlow does: a library that exports the driver's names globally, each of which opens the
// driver at its first call and goes on to it.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int driver_stub_calls;

static void *target(const char *name) {
    static void *driver;
    if (++driver_stub_calls > 100000) {
        fprintf(stderr, "the stub calls itself\n");
        _Exit(91);
    }
    if (!driver) driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver ? dlsym(driver, name) : NULL;
}

#define FORWARD(name, parameters, arguments)                     \
    int name parameters {                                        \
        static int(*real) parameters;                            \
        if (!real) real = (int(*) parameters)target(#name);      \
        return real ? real arguments : 303;                      \
    }

FORWARD(cuInit, (unsigned a), (a))
FORWARD(cuDeviceGet, (int *a, int b), (a, b))
FORWARD(cuDeviceTotalMem_v2, (size_t *a, int b), (a, b))
FORWARD(cuDevicePrimaryCtxRetain, (void **a, int b), (a, b))
FORWARD(cuCtxSetCurrent, (void *a), (a))
FORWARD(cuMemAlloc_v2, (unsigned long long *a, size_t b), (a, b))
FORWARD(cuMemFree_v2, (unsigned long long a), (a))
FORWARD(cuMemGetInfo_v2, (size_t *a, size_t *b), (a, b))
