// A thread ends a context that has to wait for work; meanwhile memory is freed in the order of another context's stream, and what
// fits again is given.
// link: -ldl -pthread
#include "account.h"

enum { SIZE = 40 };

static CUcontext going;
static volatile int ended;

static void *ends(void *none) {
    OK(CU(cuCtxDestroy_v2)(going));
    ended = 1;
    return none;
}

int main(void) {
    CUcontext stays = cu_begin();
    CUstream stream, waits;
    CUdeviceptr word, pointer, again;
    pthread_t thread;
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemAlloc_v2)(&word, 4));
    OK(CU(cuMemsetD32_v2)(word, 0, 1));
    OK(CU(cuMemAlloc_v2)(&pointer, SIZE * MIB));
    OK(CU(cuCtxCreate_v2)(&going, 0, 0));
    OK(CU(cuStreamCreate)(&waits, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamWaitValue32_v2)(waits, word, 1, 1));
    OK(CU(cuCtxSetCurrent)(stays));
    pthread_create(&thread, NULL, ends, NULL);
    usleep(50000);
    OK(cu_work(stream, 30000000));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    MUST(!ended);
    OK(CU(cuMemAlloc_v2)(&again, SIZE * MIB));
    MUST(!ended);
    OK(CU(cuStreamWriteValue32_v2)(stream, word, 1, 0));
    pthread_join(thread, NULL);
    OK(CU(cuMemFree_v2)(again));
    puts("done");
    return 0;
}
