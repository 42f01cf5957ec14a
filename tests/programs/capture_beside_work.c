// One thread captures a stream while another launches, allocates, asks and is throttled. Prints
// every answer: they must be those of the driver alone, in each capture mode.
//
//   capture_beside_work global|thread_local|relaxed
// link: -ldl
#include "cu.h"

static CUcontext context;
static CUfunction work;
static pthread_barrier_t step;
static volatile int capturing;

static CUresult launch(CUstream stream, uint64_t nanoseconds) {
    void *arguments[] = {&nanoseconds};
    return cu_launch(work, stream, arguments);
}

// Launches without a pause while the other thread captures, then asks what a capture in global
// mode forbids.
static void *other(void *nothing) {
    CUstream stream;
    CUevent event;
    CUdeviceptr memory = 0;
    size_t free_bytes, total;
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuEventCreate)(&event, 0));
    pthread_barrier_wait(&step); // The capture has begun.
    int launched = 0;
    while (capturing || launched < 20) {
        OK(launch(stream, 1000000));
        launched++;
    }
    pthread_barrier_wait(&step); // It has ended; a second one begins.
    pthread_barrier_wait(&step);
    printf("other: launch %d\n", launch(stream, 1000000));
    printf("other: record %d\n", CU(cuEventRecord)(event, stream));
    printf("other: info %d\n", CU(cuMemGetInfo_v2)(&free_bytes, &total));
    int result = CU(cuMemAlloc_v2)(&memory, 4096);
    printf("other: alloc %d\n", result);
    if (result == CUDA_SUCCESS) printf("other: free %d\n", CU(cuMemFree_v2)(memory));
    printf("other: synchronise event %d\n", CU(cuEventSynchronize)(event));
    result = CU(cuEventQuery)(event);
    printf("other: query %s\n", result == CUDA_ERROR_NOT_READY || result == CUDA_SUCCESS ? "answered" : "refused");
    printf("other: synchronise stream %d\n", CU(cuStreamSynchronize)(stream));
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    printf("other: exchange %d", CU(cuThreadExchangeStreamCaptureMode)(&mode));
    printf(", was %d\n", mode); // The shim's own calls leave it as it was.
    pthread_barrier_wait(&step);
    return nothing;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int mode = !strcmp(argv[1], "global")         ? CU_STREAM_CAPTURE_MODE_GLOBAL
               : !strcmp(argv[1], "thread_local") ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                  : CU_STREAM_CAPTURE_MODE_RELAXED;
    context = cu_begin();
    work = cu_kernel("sim_work");
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&step, NULL, 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL)) return 1;

    // First: the other thread does nothing but launch, and is held back.
    capturing = 1;
    OK(CU(cuStreamBeginCapture_v2)(stream, mode));
    pthread_barrier_wait(&step);
    // Captured launches are not work: at 2 % these would take ten minutes if they counted.
    for (int i = 0; i < 200; i++) OK(launch(stream, 50000000));
    usleep(100000);
    int status = -1;
    OK(CU(cuStreamIsCapturing)(stream, &status));
    printf("capturing: %d\n", status);
    printf("end: %d\n", CU(cuStreamEndCapture)(stream, &graph));
    capturing = 0;
    pthread_barrier_wait(&step);
    OK(CU(cuGraphDestroy)(graph));

    // Second: it also asks for what may be forbidden.
    printf("begin: %d\n", CU(cuStreamBeginCapture_v2)(stream, mode));
    printf("launch: %d\n", launch(stream, 100000));
    fflush(stdout);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    printf("launch: %d\n", launch(stream, 100000));
    int result = CU(cuStreamEndCapture)(stream, &graph);
    printf("end: %d\n", result);
    if (result == CUDA_SUCCESS) {
        printf("instantiate: %d\n", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
        printf("graph launch: %d\n", CU(cuGraphLaunch)(exec, stream));
        printf("synchronise: %d\n", CU(cuStreamSynchronize)(stream));
    }
    pthread_join(thread, NULL);
    return 0;
}
