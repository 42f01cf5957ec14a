// A signal handler that calls the driver while the thread that it interrupts waits in the gate: what it takes counts too.
// link: -ldl
#include "cu.h"
#include <signal.h>
#include <sys/time.h>

static int taken;

static int take(void) {
    CUdeviceptr pointer;
    int blocks = 0;
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    return blocks;
}

static void handler(int signal) {
    (void)signal;
    taken = take();
}

int main(void) {
    cu_begin();
    cu_kernel("sim_work");
    CU(cuMemAlloc_v2);
    signal(SIGALRM, handler);
    struct itimerval timer = {.it_value = {.tv_usec = 300000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 5; i++) OK(cu_work(NULL, 20000000));
    printf("handler=%d\n", taken);
    printf("afterwards=%d\n", take());
    return 0;
}
