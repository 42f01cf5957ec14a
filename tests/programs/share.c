// Keeps the device busy with one kind of launch, and prints which part of the time it ran, by the
// simulator's own account.
//
//   share KIND SECONDS [KERNEL_NS]
//
// KIND: launch, launch_ex, cooperative, graph, each also with _ptsz; barrier: a kernel that spins until the work is done,
// which is launched later on another stream. The program runs ahead of the
// device without ever waiting for it: what holds it back is the gate, or the driver's own bound.
// link: -ldl
#include "cu.h"

static CUfunction work;
static CUgraphExec graph;
static uint64_t kernel_ns = 100000;

static CUresult barrier(void) {
    static CUstream first, second;
    static CUfunction wait, store;
    static CUdeviceptr word;
    static uint32_t round;
    void *awaited[] = {&word, &round}, *lasting[] = {&kernel_ns};
    if (!round++) {
        wait = cu_kernel("sim_wait_word"), store = cu_kernel("sim_store_word");
        OK(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
        OK(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
        OK(CU(cuMemAlloc_v2)(&word, 4));
        OK(CU(cuMemsetD32_v2)(word, 0, 1));
    }
    OK(cu_launch(wait, first, awaited));
    OK(cu_launch(work, second, lasting));
    OK(cu_launch(store, second, awaited));
    return CU(cuStreamSynchronize)(first);
}

static CUresult launch(const char *kind) {
    void *arguments[] = {&kernel_ns};
    CUlaunchConfig one = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    if (!strcmp(kind, "launch")) return CU(cuLaunchKernel)(work, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    if (!strcmp(kind, "launch_ptsz")) return CU(cuLaunchKernel_ptsz)(work, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    if (!strcmp(kind, "launch_ex")) return CU(cuLaunchKernelEx)(&one, work, arguments, NULL);
    if (!strcmp(kind, "launch_ex_ptsz")) return CU(cuLaunchKernelEx_ptsz)(&one, work, arguments, NULL);
    if (!strcmp(kind, "cooperative")) return CU(cuLaunchCooperativeKernel)(work, 1, 1, 1, 1, 1, 1, 0, NULL, arguments);
    if (!strcmp(kind, "cooperative_ptsz"))
        return CU(cuLaunchCooperativeKernel_ptsz)(work, 1, 1, 1, 1, 1, 1, 0, NULL, arguments);
    if (!strcmp(kind, "graph")) return CU(cuGraphLaunch)(graph, NULL);
    if (!strcmp(kind, "graph_ptsz")) return CU(cuGraphLaunch_ptsz)(graph, NULL);
    if (!strcmp(kind, "barrier")) return barrier();
    exit(2);
}

// A graph of one kernel.
static void make_graph(void) {
    CUstream stream;
    CUgraph captured;
    void *arguments[] = {&kernel_ns};
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cu_launch(work, stream, arguments));
    OK(CU(cuStreamEndCapture)(stream, &captured));
    OK(CU(cuGraphInstantiateWithFlags)(&graph, captured, 0));
}

// Sums every number behind "key": before the first "tenants", which is the device's own.
static uint64_t account(const char *key) {
    static char json[1 << 20];
    if (CU(gpuSimSnapshot)(json, sizeof json) < 0) exit(93);
    char *found = strstr(json, key);
    if (!found) exit(93);
    found = strchr(found + strlen(key), ':');
    return found ? strtoull(found + 1, NULL, 10) : 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double seconds = atof(argv[2]);
    if (argc > 3) kernel_ns = strtoull(argv[3], NULL, 10);
    cu_begin();
    work = cu_kernel("sim_work");
    if (strstr(argv[1], "graph")) make_graph();
    OK(launch(argv[1]));
    OK(CU(cuCtxSynchronize)());

    uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), launches = 0;
    uint64_t busy = account("\"busy_ns\"");
    uint64_t longest = 0, before = begin, now;
    for (;;) {
        OK(launch(argv[1]));
        launches++;
        now = now_ns();
        if (now - before > longest) longest = now - before;
        before = now;
        if (now >= end) break;
    }
    busy = account("\"busy_ns\"") - busy;
    printf("launches=%lu\nbusy_ns=%lu\nwall_ns=%lu\npermille=%lu\nlongest_launch_us=%lu\n", launches, busy, now - begin,
           busy * 1000 / (now - begin), longest / 1000);
    OK(CU(cuCtxSynchronize)());
    return 0;
}
