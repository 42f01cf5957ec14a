// What the capturing thread itself may and may not do while it captures, in the given mode.
//
//   capture_own_thread global|thread_local|relaxed
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int mode = !strcmp(argv[1], "global")         ? CU_STREAM_CAPTURE_MODE_GLOBAL
               : !strcmp(argv[1], "thread_local") ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                  : CU_STREAM_CAPTURE_MODE_RELAXED;
    cu_begin();
    CUstream stream, idle;
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUdeviceptr memory = 0;
    size_t free_bytes, total;
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&idle, CU_STREAM_NON_BLOCKING));
    OK(cu_work(idle, 1000000));
    OK(CU(cuStreamBeginCapture_v2)(stream, mode));
    printf("launch: %d\n", cu_work(stream, 100000));
    printf("launch elsewhere: %d\n", cu_work(idle, 100000));
    printf("info: %d\n", CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("end: %d\n", CU(cuStreamEndCapture)(stream, &graph));
    if (graph) {
        printf("instantiate: %d\n", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
        for (int i = 0; i < 3; i++) printf("graph launch: %d\n", CU(cuGraphLaunch)(exec, stream));
        printf("synchronise: %d\n", CU(cuStreamSynchronize)(stream));
    }

    OK(CU(cuStreamBeginCapture_v2)(stream, mode));
    printf("launch: %d\n", cu_work(stream, 100000));
    int result = CU(cuMemAlloc_v2)(&memory, 4096);
    printf("alloc: %d\n", result);
    printf("synchronise the capturing stream: %d\n", CU(cuStreamSynchronize)(stream));
    graph = NULL;
    printf("end: %d\n", CU(cuStreamEndCapture)(stream, &graph));
    printf("after: %d\n", cu_work(stream, 100000));
    printf("synchronise: %d\n", CU(cuStreamSynchronize)(stream));
    return 0;
}
