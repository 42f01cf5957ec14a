// What the group is said to hold, and what the simulated device really holds, for programs that compare the two.
#ifndef LEDGER_H
#define LEDGER_H

#include "cu.h"

CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphUpload(CUgraphExec, CUstream);
CUresult cuGraphUpload_ptsz(CUgraphExec, CUstream);
CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuDeviceGraphMemTrim(CUdevice);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr, CUstream);
CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool);
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void *);
CUresult cuDeviceSetGraphMemAttribute(CUdevice, int, void *);

// Bytes behind `"name":` in the first device's part of the simulator's account.
__attribute__((unused)) static size_t sim_account(const char *name) {
    static char json[1 << 18];
    char key[64];
    CU(gpuSimSnapshot)(json, sizeof json);
    snprintf(key, sizeof key, "\"%s\":", name);
    char *found = strstr(json, key);
    MUST(found);
    return strtoull(found + strlen(key), NULL, 10);
}

// What the device holds apart from contexts: call it first when nothing is allocated.
__attribute__((unused)) static size_t truth(void) {
    static size_t contexts;
    if (!contexts) contexts = sim_account("used");
    return sim_account("used") - contexts;
}

// What the group is charged, as its program sees it. Contexts must not be charged.
__attribute__((unused)) static size_t held(void) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    return total - free_bytes;
}

// Ends the program unless the group is charged exactly `mib`, and the device holds the same.
#define HOLDS(mib) holds((mib), __LINE__)
__attribute__((unused)) static void holds(size_t mib, int line) {
    size_t charged = held(), real = truth();
    if (charged == mib * MIB && real == mib * MIB) return;
    fprintf(stderr, "line %d: charged %.2f MiB, the device holds %.2f, not %zu\n", line, (double)charged / MIB,
            (double)real / MIB, mib);
    _exit(93);
}

// Ends the program unless `call` is refused without the driver's function `name` being called.
#define REFUSED(name, call)                                     \
    do {                                                        \
        unsigned long long calls = CU(gpuSimCalls)(#name);      \
        CUresult answer = (call);                               \
        refused(#name, calls, answer, __LINE__);                \
    } while (0)
__attribute__((unused)) static void refused(const char *name, unsigned long long calls, CUresult answer, int line) {
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && CU(gpuSimCalls)(name) == calls) return;
    fprintf(stderr, "line %d: %s answered %d after %llu calls of the driver\n", line, name, answer,
            CU(gpuSimCalls)(name) - calls);
    _exit(92);
}

typedef struct {
    const char *name;
    void (*run)(void);
} Case;

// Runs the case that the first argument names.
__attribute__((unused)) static int run_case(int count, char **arguments, const Case *cases, size_t cases_count) {
    for (size_t index = 0; index < cases_count; index++) {
        if (count > 1 && !strcmp(arguments[1], cases[index].name)) {
            cases[index].run();
            puts("done");
            return 0;
        }
    }
    fprintf(stderr, "no case %s\n", count > 1 ? arguments[1] : "");
    return 91;
}
#define CASES(cases) run_case(argc, argv, (cases), sizeof(cases) / sizeof *(cases))

#endif
