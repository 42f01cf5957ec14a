// What the shim shows as charged, compared with what the simulated device says that it really gave.
#ifndef ACCOUNT_H
#define ACCOUNT_H
#include "cu.h"

// Bytes of the quota that are in use, by the view of the current device.
__attribute__((unused)) static size_t charged(void) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    return total - free_bytes;
}

// A figure of the simulator's account: of a device, the first of its name.
static size_t account_of(int device, const char *figure) {
    static char text[1 << 18];
    int needed = CU(gpuSimSnapshot)(text, sizeof text);
    MUST(needed > 0 && (size_t)needed < sizeof text);
    char *at = text;
    for (int i = 0; i <= device; i++) {
        at = strstr(at + 1, "\"uuid\"");
        MUST(at);
    }
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", figure);
    at = strstr(at, key);
    MUST(at);
    return strtoull(at + strlen(key), NULL, 10);
}

// Bytes that applications asked for and still have on device 0.
#define REALLY() account_of(0, "requested")

__attribute__((unused)) static void same(size_t expected, int line) {
    size_t shown = charged(), real = REALLY();
    if (shown == expected && real == expected) return;
    fprintf(stderr, "line %d: charged %zu, really %zu, expected %zu\n", line, shown, real, expected);
    fflush(stdout);
    _exit(93);
}

// Both say so many bytes.
#define SAME(bytes) same((bytes), __LINE__)

// The call is refused for the quota, and the driver's function is not called.
#define REFUSED(name, call)                                                    \
    do {                                                                       \
        unsigned long long before = CU(gpuSimCalls)(#name);                    \
        IS(CUDA_ERROR_OUT_OF_MEMORY, call);                                    \
        MUST(CU(gpuSimCalls)(#name) == before);                                \
    } while (0)

#endif
