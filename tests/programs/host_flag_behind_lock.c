// A kernel spins on a flag in host memory. The thread that sets the flag needs a lock, and the
// thread that holds the lock is launching: if its launches wait for the kernel, nobody goes on.
// link: -ldl
#include "cu.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint32_t *flag;

static void *set_flag(void *nothing) {
    pthread_mutex_lock(&lock);
    *flag = 1;
    pthread_mutex_unlock(&lock);
    return nothing;
}

int main(void) {
    cu_begin();
    void *host;
    CUdeviceptr word;
    CUstream first, second;
    uint32_t one = 1;
    OK(CU(cuMemHostAlloc)(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(CU(cuMemHostGetDevicePointer_v2)(&word, host, 0));
    flag = host;
    *flag = 0;
    OK(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));

    pthread_mutex_lock(&lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, set_flag, NULL)) return 1;
    void *arguments[] = {&word, &one};
    OK(cu_launch(cu_kernel("sim_wait_word"), first, arguments));
    for (int i = 0; i < 20; i++) OK(cu_work(second, 100000));
    pthread_mutex_unlock(&lock);

    OK(CU(cuCtxSynchronize)());
    pthread_join(thread, NULL);
    printf("done\n");
    return 0;
}
