// Takes 512 MiB and ends, or goes on, in an unusual way.
//
//   ends exit             by _exit, with the memory held
//   ends thread_exit      its first thread ends, another one goes on holding
//   ends orphan           by _exit; a child that it forked afterwards lives on
//   ends become PROGRAM   by becoming a program that does not use the GPU
//   ends clone            raw clone before CUDA is initialised: both take memory, in a slot each
//   ends clone_vm         a clone that shares its memory takes 256 MiB more, and ends
//   ends hold             holds until its standard input ends
//   ends reuse PID        no memory: a process of that pid, waiting; prints reuse=0 if it cannot be made
//   ends shell            no memory: kills one that holds, and takes all, in one pid namespace
// link: -ldl
#include "cu.h"
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct set_tid {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static CUcontext context;

static CUresult take(size_t mib) {
    CUdeviceptr pointer;
    return CU(cuMemAlloc_v2)(&pointer, mib * MIB);
}

static void hold(void) {
    context = cu_begin();
    OK(take(512));
}

static size_t free_mib(void) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    return free_bytes / MIB;
}

static void *stay(void *nothing) {
    usleep(100000);
    OK(CU(cuCtxSetCurrent)(context));
    printf("free=%zu\n", free_mib());
    stop_here("ready");
    exit(0);
    return nothing;
}

static int take_more(void *nothing) {
    (void)nothing;
    _exit(take(256));
}

static void wait_for(pid_t child, int code) {
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void reuse(pid_t pid) {
    struct set_tid arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
    pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    printf("reuse=%d\n", child == pid);
    stop_here("ready");
    if (child > 0) kill(child, SIGKILL);
}

static void shell(void) {
    int pipes[2];
    char byte;
    MUST(!pipe(pipes));
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        hold();
        MUST(write(pipes[1], "!", 1) == 1);
        for (;;) pause();
    }
    MUST(read(pipes[0], &byte, 1) == 1);
    cu_begin();
    printf("beside=%d\n", take(600));
    MUST(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    printf("after=%d\n", take(600));
    stop_here("ready");
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char *way = argv[1];
    if (!strcmp(way, "exit")) {
        hold();
        _exit(0);
    } else if (!strcmp(way, "thread_exit")) {
        pthread_t thread;
        hold();
        MUST(!pthread_create(&thread, NULL, stay, NULL));
        pthread_exit(NULL);
    } else if (!strcmp(way, "orphan")) {
        hold();
        pid_t child = fork();
        MUST(child >= 0);
        if (child) {
            printf("child=%d\n", child);
            fflush(stdout);
            _exit(0);
        }
        alarm(100);
        for (;;) pause();
    } else if (!strcmp(way, "become")) {
        hold();
        printf("becoming\n");
        fflush(stdout);
        execv(argv[2], argv + 2);
        return 1;
    } else if (!strcmp(way, "clone")) {
        int held[2], done[2];
        char byte;
        MUST(!pipe(held) && !pipe(done));
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        MUST(child >= 0);
        // The child first; it lives until its parent has looked, because what the dead held is given back to whoever looks.
        if (child) MUST(read(held[0], &byte, 1) == 1);
        hold();
        printf("%s=%zu\n", child ? "parent" : "child", free_mib());
        fflush(stdout);
        if (!child) {
            MUST(write(held[1], "!", 1) == 1);
            close(done[1]);
            MUST(read(done[0], &byte, 1) == 0);
            _exit(0);
        }
        close(done[1]);
        wait_for(child, 0);
        stop_here("ready");
    } else if (!strcmp(way, "clone_vm")) {
        static char stack[1 << 18];
        hold();
        wait_for(clone(take_more, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), CUDA_SUCCESS);
        printf("free=%zu\n", free_mib());
        stop_here("ready");
    } else if (!strcmp(way, "hold")) {
        hold();
        stop_here("ready");
    } else if (!strcmp(way, "reuse")) {
        reuse(atoi(argv[2]));
    } else if (!strcmp(way, "shell")) {
        shell();
    } else {
        return 2;
    }
    return 0;
}
