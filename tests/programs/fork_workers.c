// A server that forks before it touches CUDA: each worker initialises for itself, has a slot of its
// own, and they share the quota.
//
//   fork_workers COUNT
// link: -ldl
#include "cu.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int count = atoi(argv[1]), pipes[2];
    cu_driver(); // Loaded in the parent, not initialised.
    MUST(!pipe(pipes));
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        MUST(pid >= 0);
        if (pid) continue;
        close(pipes[1]);
        CUdeviceptr pointer;
        int blocks = 0;
        cu_begin();
        while (blocks < 100 && CU(cuMemAlloc_v2)(&pointer, 64 * MIB) == CUDA_SUCCESS) blocks++;
        printf("blocks %d\n", blocks);
        fflush(stdout);
        // Stays until all have had their turn.
        char byte;
        while (read(pipes[0], &byte, 1) > 0) {
        }
        _exit(0);
    }
    close(pipes[0]);
    sleep(2);
    close(pipes[1]);
    while (wait(NULL) > 0) {
    }
    return 0;
}
