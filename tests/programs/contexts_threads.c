// Threads allocate in contexts that another thread destroys at the same time: whatever comes of each call, nothing stays charged
// once all contexts are gone.
// link: -ldl
#include "account.h"

CUresult cuArray3DCreate_v2(CUarray *, const void *);
enum { THREADS = 3, ROUNDS = 5000 };

static CUcontext shared;
static pthread_barrier_t barrier;

static void *allocates(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        CU(cuCtxSetCurrent)(shared);
        for (int i = 0; i < 20; i++) {
            CUdeviceptr pointer;
            CUarray array;
            // Answers that the context is destroyed, sooner or later.
            CU(cuMemAlloc_v2)(&pointer, 65536);
            CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){64, 64, CU_AD_FORMAT_FLOAT, 1});
        }
        CU(cuCtxSetCurrent)(NULL);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    cu_begin();
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, allocates, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        OK(CU(cuCtxCreate_v2)(&shared, 0, 0));
        OK(CU(cuCtxPopCurrent_v2)(&shared));
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < round % 7; i++) sched_yield();
        OK(CU(cuCtxDestroy_v2)(shared));
        pthread_barrier_wait(&barrier);
        SAME(0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
