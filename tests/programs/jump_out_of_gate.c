// A signal handler that leaves by siglongjmp while a launch waits in the gate (as programs with an interrupt key or a
// time-out do). What the thread does afterwards must still be limited.
// link: -ldl
#include "cu.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t armed;

static void leave(int signal) {
    (void)signal;
    if (armed) siglongjmp(back, 1);
}

int main(void) {
    cu_begin();
    cu_kernel("sim_work");
    signal(SIGALRM, leave);
    volatile int launched = 0;
    if (!sigsetjmp(back, 1)) {
        struct itimerval timer = {.it_value = {.tv_usec = 300000}};
        armed = 1;
        setitimer(ITIMER_REAL, &timer, NULL);
        for (;;) {
            OK(cu_work(NULL, 20000000));
            launched++;
        }
    }
    armed = 0;
    printf("launched=%d\n", launched);
    OK(CU(cuCtxSynchronize)());
    CUdeviceptr pointer;
    int blocks = 0;
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    uint64_t begin = now_ns(), busy = 0;
    while (now_ns() - begin < 2000000000u) {
        OK(cu_work(NULL, 5000000));
        OK(CU(cuCtxSynchronize)());
        busy += 5000000;
    }
    printf("share=%.1f\n", busy * 100.0 / (now_ns() - begin));
    return 0;
}
