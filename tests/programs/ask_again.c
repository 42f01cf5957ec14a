// Asks for one size again and again.
//
//   ask_again impossible MIB [THREADS]   until the standard input ends; must always be refused
//   ask_again possible MIB TIMES         and gives it back each time; prints how often it was refused
// link: -ldl
#include "cu.h"

static CUcontext context;
static size_t size;
static volatile int over;

static void *impossible(void *tries) {
    CUdeviceptr pointer;
    OK(CU(cuCtxSetCurrent)(context));
    while (!over) {
        IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&pointer, size));
        __atomic_fetch_add((long *)tries, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size = strtoul(argv[2], NULL, 10) * MIB;
    int number = argc > 3 ? atoi(argv[3]) : 1;
    context = cu_begin();
    if (!strcmp(argv[1], "impossible")) {
        pthread_t thread[number];
        long tries = 0;
        for (int i = 0; i < number; i++) MUST(!pthread_create(&thread[i], NULL, impossible, &tries));
        while (!__atomic_load_n(&tries, __ATOMIC_RELAXED)) usleep(1000);
        stop_here("asking");
        over = 1;
        for (int i = 0; i < number; i++) pthread_join(thread[i], NULL);
        printf("tries=%ld\n", tries);
        return 0;
    }
    long refused = 0;
    stop_here("ready");
    for (int i = 0; i < number; i++) {
        CUdeviceptr pointer;
        int result = CU(cuMemAlloc_v2)(&pointer, size);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            refused++;
            continue;
        }
        OK(result);
        OK(CU(cuMemFree_v2)(pointer));
    }
    printf("refused=%ld\n", refused);
    return 0;
}
