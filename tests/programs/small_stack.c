// Calls from a thread with hardly any stack, as some network servers use.
//
//   small_stack BYTES look_up|call
// link: -ldl
#include "cu.h"
#include <limits.h>
#include <sys/mman.h>

static CUcontext context;
static int only_look_up;

static void *run(void *argument) {
    void *driver = cu_driver();
    MUST(dlsym(driver, "cuMemAlloc_v2"));
    MUST(!dlsym(driver, "no_such_function"));
    MUST(dlsym(driver, "cuLaunchKernel"));
    if (only_look_up) return argument;
    CUdeviceptr pointer;
    size_t free_bytes, total;
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuMemAlloc_v2)(&pointer, 4096));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    for (int i = 0; i < 20; i++) OK(cu_work(NULL, 1000000));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&pointer, 100 * GIB));
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t size = strtoul(argv[1], NULL, 10);
    only_look_up = !strcmp(argv[2], "look_up");
    context = cu_begin();
    cu_kernel("sim_work");
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    // A page below the stack that must not be touched.
    char *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack != MAP_FAILED);
    MUST(!mprotect(stack, 4096, PROT_NONE));
    MUST(!pthread_attr_setstack(&attributes, stack + 4096, size));
    MUST(!pthread_create(&thread, &attributes, run, NULL));
    pthread_join(thread, NULL);
    printf("done\n");
    return 0;
}
