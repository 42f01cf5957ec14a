// A fibre is left by siglongjmp out of a wait in the driver, its stack is given back, and another one that lies below it goes on.
// link: -ldl
#include "cu.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#define SIZE (128 << 10)

static sigjmp_buf back;
static ucontext_t home, fibre;
static int blocks;

static void leave(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void waits(void) {
    struct itimerval timer = {.it_value = {.tv_usec = 100000}};
    OK(cu_work(NULL, 300000000));
    setitimer(ITIMER_REAL, &timer, NULL);
    OK(CU(cuCtxSynchronize)());
}

static void takes(void) {
    CUdeviceptr pointer;
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
}

static void run(char *stack, void (*what)(void)) {
    getcontext(&fibre);
    fibre.uc_stack.ss_sp = stack;
    fibre.uc_stack.ss_size = SIZE;
    fibre.uc_link = &home;
    makecontext(&fibre, what, 0);
    swapcontext(&home, &fibre);
}

int main(void) {
    cu_begin();
    cu_kernel("sim_work");
    CU(cuMemAlloc_v2);
    CU(cuCtxSynchronize);
    char *stacks = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stacks != MAP_FAILED);
    signal(SIGALRM, leave);
    if (!sigsetjmp(back, 1)) run(stacks + SIZE, waits);
    MUST(!munmap(stacks + SIZE, SIZE));
    run(stacks, takes);
    printf("blocks=%d\n", blocks);
    fflush(stdout);
    // The kernel may still run.
    _exit(0);
}
