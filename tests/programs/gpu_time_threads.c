// Threads that live for one launch each, and the part of the time that the device was busy, by the
// simulator's account.
//
//   gpu_time_threads SECONDS KERNEL_NS
// link: -ldl -lpthread
#include "cu.h"

static CUfunction work;
static CUcontext context;
static uint64_t kernel_ns;

static uint64_t busy(void) {
    static char json[1 << 20];
    if (CU(gpuSimSnapshot)(json, sizeof json) < 0) exit(93);
    char *found = strstr(json, "\"busy_ns\"");
    found = found ? strchr(found, ':') : NULL;
    if (!found) exit(93);
    return strtoull(found + 1, NULL, 10);
}

static void *once(void *unused) {
    (void)unused;
    void *arguments[] = {&kernel_ns};
    OK(CU(cuCtxSetCurrent)(context));
    OK(cu_launch(work, NULL, arguments));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    uint64_t length = (uint64_t)(atof(argv[1]) * 1e9);
    kernel_ns = strtoull(argv[2], NULL, 10);
    context = cu_begin();
    work = cu_kernel("sim_work");
    uint64_t before = busy(), begin = now_ns();
    while (now_ns() - begin < length) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) MUST(!pthread_create(&threads[i], NULL, once, NULL));
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    printf("permille=%lu\n", (busy() - before) * 1000 / (now_ns() - begin));
    return 0;
}
