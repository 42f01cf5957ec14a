// Tight loops over one prepared call, for cost.py. The function comes as an address, so no CUDA header is needed.
#include <stdint.h>
#include <time.h>

typedef uint64_t u64;
typedef int (*function)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// Nanoseconds for each of n calls, or the negative code of the call that failed. Words beyond a function's parameters do no harm in
// the 64-bit System V and Arm calling conventions.
double loop_call(function f, const u64 *a, int n) {
    double start = now_ns();
    for (int i = 0; i < n; ++i) {
        int code = f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
        if (code) return -code;
    }
    return (now_ns() - start) / n;
}

// The same for pairs: an allocation into *p, and the free of what it gave.
double loop_pair(int (*take)(u64 *, u64), int (*give)(u64), u64 size, int n) {
    u64 p;
    double start = now_ns();
    for (int i = 0; i < n; ++i) {
        int code = take(&p, size);
        if (!code) code = give(p);
        if (code) return -code;
    }
    return (now_ns() - start) / n;
}
