// A signal handler that leaves by siglongjmp while the thread waits for the GPU in the driver, as an interrupt key during a
// synchronisation may. What the thread does afterwards is limited, also below a frame that nobody has written to.
//
//   jump_out_of_wait BYTES       of unwritten stack above the calls
// link: -ldl
#include "cu.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;

static void leave(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static int take(size_t bytes) {
    volatile char unwritten[bytes];
    CUdeviceptr pointer;
    int blocks = 0;
    unwritten[0] = 1;
    (void)unwritten[0];
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    return blocks;
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    cu_begin();
    cu_kernel("sim_work");
    CU(cuMemAlloc_v2);
    CU(cuCtxSynchronize);
    signal(SIGALRM, leave);
    if (!sigsetjmp(back, 1)) {
        struct itimerval timer = {.it_value = {.tv_usec = 100000}};
        OK(cu_work(NULL, 400000000));
        setitimer(ITIMER_REAL, &timer, NULL);
        OK(CU(cuCtxSynchronize)());
        return 3;
    }
    printf("blocks=%d\n", take(strtoul(argv[1], NULL, 10)));
    fflush(stdout);
    // The kernel may still run.
    _exit(0);
}
