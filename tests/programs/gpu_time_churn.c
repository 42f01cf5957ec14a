// Everything that launches depend on comes and goes while other threads launch: streams, contexts,
// modules, captures, executable graphs; then a child of fork, which has no CUDA, and a reset.
//
//   gpu_time_churn SECONDS
// link: -ldl -lpthread
#include "cu.h"
#include <sys/wait.h>

static CUfunction work;
static CUcontext context;
static uint64_t end;
static volatile long launches;

static void launch(CUfunction function, CUstream stream, uint64_t nanoseconds) {
    void *arguments[] = {&nanoseconds};
    OK(cu_launch(function, stream, arguments));
    __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
}

static void *streams(void *unused) {
    (void)unused;
    OK(CU(cuCtxSetCurrent)(context));
    while (now_ns() < end) {
        CUstream three[3];
        for (int i = 0; i < 3; i++) OK(CU(cuStreamCreate)(&three[i], CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 60; i++) launch(work, three[i % 3], 3000 + 500 * (uint64_t)i);
        for (int i = 0; i < 3; i++) OK(CU(cuStreamDestroy_v2)(three[i]));
    }
    return NULL;
}

static void *contexts(void *image) {
    for (int round = 0; now_ns() < end; round++) {
        CUcontext own;
        CUmodule module;
        CUfunction function;
        OK(CU(cuCtxCreate_v2)(&own, 0, 0));
        OK(CU(cuModuleLoadData)(&module, image));
        OK(CU(cuModuleGetFunction)(&function, module, "sim_work"));
        for (int i = 0; i < 40; i++) launch(function, NULL, 20000);
        if (round % 2) OK(CU(cuModuleUnload)(module));
        OK(CU(cuCtxDestroy_v2)(own));
    }
    return NULL;
}

static void *captures(void *mode) {
    CUstream stream;
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    while (now_ns() < end) {
        CUgraph graph;
        CUgraphExec executable;
        OK(CU(cuStreamBeginCapture_v2)(stream, (int)(size_t)mode));
        for (int i = 0; i < 10; i++) launch(work, stream, 4000);
        OK(CU(cuStreamEndCapture)(stream, &graph));
        OK(CU(cuGraphInstantiateWithFlags)(&executable, graph, 0));
        for (int i = 0; i < 5; i++) OK(CU(cuGraphLaunch)(executable, stream));
        OK(CU(cuStreamSynchronize)(stream));
        OK(CU(cuGraphExecDestroy)(executable));
        OK(CU(cuGraphDestroy)(graph));
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    context = cu_begin();
    work = cu_kernel("sim_work");
    static char image[1 << 20];
    FILE *file = fopen(getenv("QUOTA_TEST_KERNELS"), "r");
    MUST(file && fread(image, 1, sizeof image - 1, file));
    fclose(file);

    end = now_ns() + (uint64_t)(atof(argv[1]) * 1e9);
    struct {
        void *(*run)(void *);
        void *argument;
    } parts[] = {
        {streams, NULL},
        {streams, NULL},
        {contexts, image},
        {captures, (void *)CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
        {captures, (void *)CU_STREAM_CAPTURE_MODE_RELAXED},
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    pthread_t threads[PARTS];
    for (int i = 0; i < PARTS; i++) MUST(!pthread_create(&threads[i], NULL, parts[i].run, parts[i].argument));
    for (int i = 0; i < PARTS; i++) pthread_join(threads[i], NULL);
    OK(CU(cuCtxSynchronize)());

    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++) {
            uint64_t nanoseconds = 5;
            void *arguments[] = {&nanoseconds};
            if (cu_launch(work, NULL, arguments) != CUDA_ERROR_NOT_INITIALIZED) _exit(9);
        }
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    launch(work, NULL, 5);
    OK(CU(cuDevicePrimaryCtxReset_v2)(0));
    MUST(launches > 100);
    printf("done\n");
    return 0;
}
