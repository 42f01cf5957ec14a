// A child that shares its parent's memory (vfork, CLONE_VM), or does not (fork), asks the driver something. The parent's
// account stays what it was.
//
//   vfork_calls vfork|clone|fork
// link: -ldl
#include "cu.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static int child(void *unused) {
    (void)unused;
    size_t free, total;
    CU(cuMemGetInfo_v2)(&free, &total);
    _exit(0);
}

static int blocks(void) {
    CUdeviceptr pointer;
    int blocks = 0;
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 128 * MIB) == CUDA_SUCCESS) blocks++;
    return blocks;
}

int main(int argc, char **argv) {
    CUdeviceptr half;
    MUST(argc == 2);
    cu_begin();
    CU(cuMemGetInfo_v2);
    OK(CU(cuMemAlloc_v2)(&half, 512 * MIB));
    if (!strcmp(argv[1], "vfork")) {
        if (!vfork()) child(NULL);
    } else if (!strcmp(argv[1], "fork")) {
        if (!fork()) child(NULL);
    } else {
        char *stack = malloc(MIB);
        MUST(clone(child, stack + MIB, CLONE_VM | SIGCHLD, NULL) > 0);
    }
    wait(NULL);
    printf("more=%d\n", blocks());
    OK(CU(cuMemFree_v2)(half));
    printf("freed=%d\n", blocks());
    return 0;
}
