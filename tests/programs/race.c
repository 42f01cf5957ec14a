// Takes blocks until it is refused, in several threads, together with others that do the same.
//
//   race MIB THREADS ROUNDS
//
// All who are told to go on within the same fifth of a second begin at the same instant. After each round but the last
// everything is given back; what the last one got is held until the program is killed.
// link: -ldl
#include "cu.h"
#include <sched.h>

enum { MOST = 4096 };

static size_t size;
static int rounds;
static uint64_t start;
static CUcontext context;

struct taken {
    CUdeviceptr blocks[MOST];
    int count;
};

static void *take(void *argument) {
    struct taken *taken = argument;
    OK(CU(cuCtxSetCurrent)(context));
    struct timespec at = {.tv_sec = (time_t)(start / 1000000000u), .tv_nsec = (long)(start % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    for (int round = 1;; round++) {
        int result = CUDA_SUCCESS;
        for (taken->count = 0; taken->count < MOST; taken->count++) {
            result = CU(cuMemAlloc_v2)(&taken->blocks[taken->count], size);
            if (result) break;
            // Lets the others in, also where there are more of them than processors.
            sched_yield();
        }
        IS(CUDA_ERROR_OUT_OF_MEMORY, result);
        if (round == rounds) return NULL;
        for (int i = 0; i < taken->count; i++) OK(CU(cuMemFree_v2)(taken->blocks[i]));
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size = strtoul(argv[1], NULL, 10) * MIB;
    int threads = atoi(argv[2]);
    rounds = atoi(argv[3]);
    context = cu_begin();
    struct taken *taken = calloc((size_t)threads, sizeof *taken);
    pthread_t thread[threads];
    stop_here("ready");
    start = (now_ns() / 200000000u + 2) * 200000000u;
    for (int i = 0; i < threads; i++) MUST(!pthread_create(&thread[i], NULL, take, &taken[i]));
    int blocks = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        blocks += taken[i].count;
    }
    printf("blocks %d\n", blocks);
    fflush(stdout);
    for (;;) pause();
}
