// Stops a process at an instruction at which it asks for memory, as a debugger or a freezer may, and looks what others get
// meanwhile, and what it gets when it goes on.
//
//   stopped REGION
//
// Under a quota of 256 MiB. Prints what another asks for and is given beside the stopped one, and what that is given then.
// link: -ldl
#include "cu.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#ifdef __x86_64__
#include "steps.h"

static uint64_t asking(const uint64_t *region) {
    uint64_t sum = 0;
    for (int slot = 0; slot < 512; slot++) {
        uint64_t word = __atomic_load_n(&region[0xa080 / 8 + slot], __ATOMIC_RELAXED) & 0x3fffffff;
        sum += word == 0x3fffffff ? 0 : word * 512;
    }
    return sum;
}

static CUresult take(size_t mib) {
    CUdeviceptr pointer;
    return CU(cuMemAlloc_v2)(&pointer, mib * MIB);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int up[2];
    char byte;
    MUST(!pipe(up));
    if (!may_trace()) return 0;
    find_all_code();
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cu_begin();
        OK(take(16));
        MUST(write(up[1], "!", 1) == 1);
        MUST(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        raise(SIGSTOP);
        CUdeviceptr pointer;
        __typeof__(cuMemAlloc_v2) *alloc = CU(cuMemAlloc_v2);
        path_begins();
        _exit(alloc(&pointer, 200 * MIB));
    }
    MUST(read(up[0], &byte, 1) == 1);
    // Two in the group, so that they ask each other.
    cu_begin();
    OK(take(16));
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    MUST(!ptrace(PTRACE_CONT, child, NULL, NULL));
    MUST(next_stop(child));
    int file = open(argv[1], O_RDONLY);
    const uint64_t *region = mmap(NULL, 0x10000, PROT_READ, MAP_SHARED, file, 0);
    MUST(file >= 0 && region != MAP_FAILED);
    // Steps into everything: it asks a few hundred instructions on.
    for (int left = 100000; !asking(region); left--) MUST(left && step(child));
    printf("asks=%lu\n", asking(region) / MIB);
    uint64_t begin = now_ns();
    printf("beside=%d\n", take(100));
    printf("milliseconds=%lu\n", (now_ns() - begin) / 1000000);
    MUST(!asking(region));
    MUST(!ptrace(PTRACE_CONT, child, NULL, NULL));
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    printf("then=%d\n", WEXITSTATUS(status));
    return 0;
}
#else
int main(void) {
    puts("skipped: x86-64 only");
    return 0;
}
#endif
