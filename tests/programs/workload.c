// Keeps simulated devices at work in a described way until its time is over, and says in JSON what it launched and how long
// each part of it took.
//
//   workload SECONDS WORK [OPTION...]
//
// WORK: kernel:NS; mixture (one shape, nine of 20 us to one of 2 ms, by chance); phases (one shape, 200 ms of 20 us, then 200 ms of 1 ms); new-shapes (a
// new shape at every launch, 100 us); graph:NODES of 10 us each; regraph:NODES, updated or instantiated anew before each launch;
// burst:NS, one kernel each 50 ms, awaited, on a beat that does not wait for a late one; barrier, on two devices that wait for each other
// after 1 ms of work on each; late:NS, nothing until it is told to go on again, then as kernel.
// OPTION: sync (waits for each); streams:N (in turn); threads:N (each on streams of its own); ptsz (the threads' own default
// streams); contexts:N (in turn); go (says "ready", and begins when its standard input has a line or ends);
// until:FILE (ends when that file is there, too).
// link: -ldl
#include "cu.h"

enum { MOST = 16, SAMPLES = 1 << 16 };

static struct {
    const char *work, *until;
    uint64_t ns;
    int nodes, sync, streams, threads, ptsz, contexts, go;
} plan = {.streams = 1, .threads = 1, .contexts = 1};

static CUcontext contexts[MOST];
static CUfunction works[MOST];
static char image[1 << 20];
static uint64_t end;
static _Atomic uint64_t launches, longest;
static uint32_t samples[SAMPLES];
static int sampled;
// Looked up once: among kernels of 5 us a look-up counts.
static __typeof__(cuLaunchKernel) *launch_kernel;

CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph, void *);

static int is(const char *name) { return !strncmp(plan.work, name, strlen(name)); }

static uint64_t number(const char *text) {
    const char *colon = strchr(text, ':');
    MUST(colon);
    return strtoull(colon + 1, NULL, 10);
}

static void note_longest(uint64_t took) {
    uint64_t seen = longest;
    while (took > seen && !__atomic_compare_exchange_n((uint64_t *)&longest, &seen, took, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static int over(void) { return now_ns() >= end || (plan.until && !access(plan.until, F_OK)); }

// A line from the tester, or the end of its patience.
static void await_line(void) {
    char byte = 0;
    while (byte != '\n' && read(0, &byte, 1) > 0) {
    }
}

static CUfunction load(int device_context) {
    CUmodule module;
    CUfunction function;
    OK(CU(cuCtxSetCurrent)(contexts[device_context]));
    OK(CU(cuModuleLoadData)(&module, image));
    OK(CU(cuModuleGetFunction)(&function, module, "sim_work"));
    return function;
}

static void launch(CUfunction work, CUstream stream, unsigned grid, uint64_t ns) {
    void *arguments[] = {&ns};
    uint64_t begin = now_ns();
    OK(launch_kernel(work, grid, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    note_longest(now_ns() - begin);
    launches++;
}

static CUgraph captured(CUfunction work, CUstream stream, int nodes, uint64_t ns) {
    CUgraph graph;
    void *arguments[] = {&ns};
    OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < nodes; i++) OK(cu_launch(work, stream, arguments));
    OK(CU(cuStreamEndCapture)(stream, &graph));
    return graph;
}

static void launch_graph(CUgraphExec exec, CUstream stream) {
    uint64_t begin = now_ns();
    OK(plan.ptsz ? CU(cuGraphLaunch_ptsz)(exec, stream) : CU(cuGraphLaunch)(exec, stream));
    note_longest(now_ns() - begin);
    launches++;
}

// Nodes of twice the length every other time: in place where the driver can do that, and anew each tenth time.
static void regraph(CUfunction work, CUstream stream) {
    CUgraphExec exec = NULL;
    char info[64];
    for (uint64_t round = 0; !over(); round++) {
        CUgraph graph = captured(work, stream, plan.nodes, round % 2 ? 20000 : 10000);
        if (exec && (round % 10 == 0 || CU(cuGraphExecUpdate_v2)(exec, graph, info))) {
            OK(CU(cuGraphExecDestroy)(exec));
            exec = NULL;
        }
        if (!exec) OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
        OK(CU(cuGraphDestroy)(graph));
        launch_graph(exec, stream);
        if (plan.sync) OK(CU(cuStreamSynchronize)(stream));
    }
}

// One kernel on each beat. What is late is launched at once, and is as late as it is: nobody who waits is left out.
static void bursts(CUfunction work, CUstream stream) {
    const uint64_t beat = 50000000;
    for (uint64_t due = now_ns() + beat; !over(); due += beat) {
        struct timespec time = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        // How late this thread was woken is not what is looked for.
        uint64_t begin = now_ns();
        launch(work, stream, 1, plan.ns);
        OK(CU(cuStreamSynchronize)(stream));
        if (sampled < SAMPLES) samples[sampled++] = (uint32_t)((now_ns() - begin) / 1000);
    }
}

// Two devices: 1 ms of work on each, then a kernel on each that waits until the other's work is done.
static void barriers(void) {
    CUfunction store[2], wait[2];
    CUdeviceptr words[2];
    uint32_t *host;
    OK(CU(cuMemHostAlloc)((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | 1));
    memset(host, 0, 4096);
    for (int i = 0; i < 2; i++) {
        CUmodule module;
        OK(CU(cuCtxSetCurrent)(contexts[i]));
        OK(CU(cuModuleLoadData)(&module, image));
        OK(CU(cuModuleGetFunction)(&store[i], module, "sim_store_word"));
        OK(CU(cuModuleGetFunction)(&wait[i], module, "sim_wait_word"));
        OK(CU(cuMemHostGetDevicePointer_v2)(&words[i], host + i, 0));
    }
    for (uint32_t round = 1; !over(); round++) {
        for (int i = 0; i < 2; i++) {
            void *own[] = {&words[i], &round}, *others[] = {&words[1 - i], &round};
            OK(CU(cuCtxSetCurrent)(contexts[i]));
            launch(works[i], NULL, 1, 1000000);
            OK(cu_launch(store[i], NULL, own));
            OK(cu_launch(wait[i], NULL, others));
        }
        for (int i = 0; i < 2; i++) {
            OK(CU(cuCtxSetCurrent)(contexts[i]));
            OK(CU(cuCtxSynchronize)());
        }
    }
}

static uint64_t length(uint64_t round) {
    static __thread uint64_t dice = 88172645463325252;
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    if (is("mixture")) return dice % 10 ? 20000 : 2000000;
    // Of GPU time: ten thousand short ones, two hundred long ones.
    if (is("phases")) return round % 10200 < 10000 ? 20000 : 1000000;
    return plan.ns;
}

static void *thread(void *place) {
    int first = (int)(size_t)place;
    CUstream streams[MOST] = {NULL};
    CUgraphExec exec = NULL;
    int count = plan.ptsz ? 1 : plan.streams;
    for (int i = 0; i < count; i++) {
        OK(CU(cuCtxSetCurrent)(contexts[i % plan.contexts]));
        // One stream of one thread is the legacy one, as most programs have it; its own it has to make.
        if (!plan.ptsz && (count > 1 || plan.threads > 1 || is("graph") || is("regraph")))
            OK(CU(cuStreamCreate)(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    if (is("burst")) return bursts(works[0], streams[0]), NULL;
    if (is("regraph")) return regraph(works[0], streams[0]), NULL;
    if (is("graph")) {
        CUstream own;
        OK(CU(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
        OK(CU(cuGraphInstantiateWithFlags)(&exec, captured(works[0], own, plan.nodes, 10000), 0));
    }
    for (uint64_t round = 0; !over(); round++) {
        int stream = (int)(round % (uint64_t)count), context = stream % plan.contexts;
        if (count > 1 && plan.contexts > 1) OK(CU(cuCtxSetCurrent)(contexts[context]));
        if (exec) launch_graph(exec, streams[0]);
        else launch(works[context], streams[stream], is("new-shapes") ? (unsigned)(round * 8 + (unsigned)first) % 1000000 + 1 : 1, length(round));
        if (plan.sync) OK(plan.ptsz ? CU(cuCtxSynchronize)() : CU(cuStreamSynchronize)(streams[stream]));
    }
    return NULL;
}

// Calls of the driver's events from this process, of whoever: this program makes none.
static unsigned long long events(void) {
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventRecord_ptsz", "cuEventRecordWithFlags", "cuEventRecordWithFlags_ptsz",
                                        "cuEventQuery", "cuEventElapsedTime", "cuEventElapsedTime_v2", "cuEventSynchronize", "cuEventDestroy_v2"};
    unsigned long long sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned long long calls = CU(gpuSimCalls)(names[i]);
        if (calls != UINT64_MAX) sum += calls;
    }
    return sum;
}

static int rising(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void describe(char **argv) {
    plan.work = argv[2];
    if (is("kernel") || is("burst") || is("late")) plan.ns = number(plan.work);
    if (is("graph") || is("regraph")) plan.nodes = (int)number(plan.work);
    if (is("new-shapes")) plan.ns = 100000;
    for (char **option = argv + 3; *option; option++) {
        if (!strcmp(*option, "sync")) plan.sync = 1;
        else if (!strcmp(*option, "ptsz")) plan.ptsz = 1;
        else if (!strcmp(*option, "go")) plan.go = 1;
        else if (!strncmp(*option, "streams:", 8)) plan.streams = (int)number(*option);
        else if (!strncmp(*option, "threads:", 8)) plan.threads = (int)number(*option);
        else if (!strncmp(*option, "contexts:", 9)) plan.contexts = (int)number(*option);
        else if (!strncmp(*option, "until:", 6)) plan.until = *option + 6;
        else exit(2);
    }
    MUST(plan.streams > 0 && plan.streams <= MOST && plan.threads > 0 && plan.threads <= MOST);
    MUST(plan.contexts > 0 && plan.contexts <= plan.streams);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    describe(argv);
    FILE *file = fopen(getenv("QUOTA_TEST_KERNELS"), "r");
    MUST(file && fread(image, 1, sizeof image - 1, file));
    fclose(file);
    OK(CU(cuInit)(0));
    int devices = is("barrier") ? 2 : 1;
    for (int i = 0; i < devices; i++) OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
    for (int i = devices; i < plan.contexts; i++) OK(CU(cuCtxCreate_v2)(&contexts[i], 0, 0));
    int all = devices > plan.contexts ? devices : plan.contexts;
    for (int i = 0; i < all; i++) works[i] = load(i);
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    launch_kernel = plan.ptsz ? CU(cuLaunchKernel_ptsz) : CU(cuLaunchKernel);
    if (plan.go || is("late")) {
        printf("ready\n");
        fflush(stdout);
        await_line();
    }
    uint64_t begin = now_ns();
    end = begin + (uint64_t)(atof(argv[1]) * 1e9);
    if (is("barrier")) barriers();
    else {
        pthread_t threads[MOST];
        for (int i = 1; i < plan.threads; i++) MUST(!pthread_create(&threads[i], NULL, thread, (void *)(size_t)i));
        thread(NULL);
        for (int i = 1; i < plan.threads; i++) pthread_join(threads[i], NULL);
    }
    uint64_t wall = now_ns() - begin;
    for (int i = 0; i < all; i++) {
        OK(CU(cuCtxSetCurrent)(contexts[i]));
        OK(CU(cuCtxSynchronize)());
    }
    qsort(samples, (size_t)sampled, sizeof *samples, rising);
    printf("{\"began_ns\":%lu,\"events\":%llu,\"launches\":%lu,\"wall_ns\":%lu,\"longest_launch_us\":%lu,\"latencies\":%d,\"p50_us\":%u,\"p95_us\":%u,\"most_us\":%u}\n",
           begin, events(), launches, wall, longest / 1000, sampled, sampled ? samples[sampled / 2] : 0,
           sampled ? samples[sampled * 95 / 100] : 0, sampled ? samples[sampled - 1] : 0);
    return 0;
}
