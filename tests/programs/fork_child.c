// What a child sees that is made after its parent initialised CUDA: the driver's own answer, and
// nothing of the parent's account touched.
//
//   fork_child fork|clone|vfork_exec|daemon
// link: -ldl
#include "cu.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static CUdeviceptr held;

static void child(const char *who) {
    CUdeviceptr pointer = 0;
    size_t free_bytes = 0, total = 0;
    printf("%s: alloc %d\n", who, CU(cuMemAlloc_v2)(&pointer, 4096));
    printf("%s: free %d\n", who, CU(cuMemFree_v2)(held));
    printf("%s: info %d\n", who, CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("%s: init %d\n", who, CU(cuInit)(0));
    printf("%s: alloc %d\n", who, CU(cuMemAlloc_v2)(&pointer, 4096));
    fflush(stdout);
}

static void wait_for(pid_t pid) {
    int status = -1;
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status)) printf("child: exit %d\n", WEXITSTATUS(status));
    else printf("child: signal %d\n", WTERMSIG(status));
}

int main(int argc, char **argv) {
    if (argc == 3) {
        child(argv[2]);
        return 0;
    }
    if (argc != 2) return 2;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&held, 512 * MIB));
    fflush(stdout);
    if (!strcmp(argv[1], "fork")) {
        pid_t pid = fork();
        if (!pid) {
            child("fork");
            exit(0); // With every exit handler.
        }
        wait_for(pid);
    } else if (!strcmp(argv[1], "clone")) {
        // No atfork handler runs for this one.
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (!pid) {
            child("clone");
            _exit(0);
        }
        wait_for(pid);
    } else if (!strcmp(argv[1], "vfork_exec")) {
        char *arguments[] = {argv[0], "again", "vfork", NULL};
        pid_t pid = vfork();
        if (!pid) {
            execv("/proc/self/exe", arguments);
            _exit(99);
        }
        wait_for(pid);
    } else if (!strcmp(argv[1], "daemon")) {
        // Twice forked, its own session: the grandchild starts a program of its own.
        pid_t pid = fork();
        if (!pid) {
            setsid();
            pid_t second = fork();
            if (!second) {
                char *arguments[] = {argv[0], "again", "daemon", NULL};
                execv("/proc/self/exe", arguments);
                _exit(99);
            }
            waitpid(second, NULL, 0);
            _exit(0);
        }
        wait_for(pid);
    }
    // The parent goes on as if there had been no child.
    size_t free_bytes, total;
    CUdeviceptr pointer;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("parent: free %zu MiB of %zu MiB\n", free_bytes / MIB, total / MIB);
    OK(CU(cuMemFree_v2)(held));
    OK(CU(cuMemAlloc_v2)(&pointer, 1 * GIB));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&pointer, 32 * GIB));
    printf("parent: done\n");
    return 0;
}
