// Launches without a pause, and says for each stretch of time which part of it the device was busy, by the simulator's own
// account, and how long the longest launch took. With a stretch of 0 ms: a line after each launch, awaited.
//
//   stretches KERNEL_NS STRETCH_MS
// link: -ldl
#include "cu.h"

static uint64_t busy_ns(void) {
    static char json[1 << 20];
    if (CU(gpuSimSnapshot)(json, sizeof json) < 0) exit(93);
    char *found = strstr(json, "\"busy_ns\"");
    found = found ? strchr(found + 9, ':') : NULL;
    if (!found) exit(93);
    return strtoull(found + 1, NULL, 10);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uint64_t kernel_ns = strtoull(argv[1], NULL, 10), stretch = strtoull(argv[2], NULL, 10) * 1000000;
    void *arguments[] = {&kernel_ns};
    cu_begin();
    CUfunction work = cu_kernel("sim_work");
    for (int number = 0;; number++) {
        uint64_t begin = now_ns(), before = begin, now, longest = 0, busy = stretch ? busy_ns() : 0;
        do {
            OK(cu_launch(work, NULL, arguments));
            now = now_ns();
            if (now - before > longest) longest = now - before;
            before = now;
        } while (now - begin < stretch);
        if (stretch) busy = busy_ns() - busy;
        else OK(CU(cuCtxSynchronize)());
        printf("stretch %d: %lu %lu\n", number, busy * 1000 / (now - begin), longest / 1000);
        fflush(stdout);
    }
}
