// Many threads open the driver, look functions up and initialise it at the same moment.
// link: -ldl
#include "cu.h"

enum { THREADS = 32 };
static pthread_barrier_t start;
static void *found[THREADS];
static int results[THREADS];

static void *run(void *argument) {
    size_t index = (size_t)argument;
    pthread_barrier_wait(&start);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    found[index] = dlsym(driver, "cuMemAlloc_v2");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    results[index] = init ? init(0) : -1;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) MUST(!pthread_create(&threads[i], NULL, run, (void *)i));
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) MUST(found[i] && found[i] == found[0] && results[i] == 0);

    // One attach: the whole quota is there, once.
    CUdeviceptr pointer;
    int blocks = 0;
    cu_begin();
    while (blocks < 100 && CU(cuMemAlloc_v2)(&pointer, 64 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
