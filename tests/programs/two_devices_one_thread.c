// One thread drives two devices: a kernel on the first spins until a kernel on the second, launched
// after it, has stored a word in host memory.
// link: -ldl
#include "cu.h"

int main(void) {
    CUcontext contexts[2];
    CUfunction functions[2], work[2];
    CUmodule modules[2];
    OK(CU(cuInit)(0));
    FILE *file = fopen(getenv("QUOTA_TEST_KERNELS"), "r");
    MUST(file);
    char *image = calloc(1, 1 << 20);
    MUST(fread(image, 1, (1 << 20) - 1, file));
    for (int i = 0; i < 2; i++) {
        OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
        OK(CU(cuCtxSetCurrent)(contexts[i]));
        OK(CU(cuModuleLoadData)(&modules[i], image));
        OK(CU(cuModuleGetFunction)(&functions[i], modules[i], i ? "sim_store_word" : "sim_wait_word"));
        OK(CU(cuModuleGetFunction)(&work[i], modules[i], "sim_work"));
    }
    void *host;
    CUdeviceptr word;
    OK(CU(cuMemHostAlloc)(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | 1));
    OK(CU(cuMemHostGetDevicePointer_v2)(&word, host, 0));
    *(volatile uint32_t *)host = 0;
    uint64_t ns = 100000;
    for (uint32_t round = 1; round <= 3; round++) {
        void *arguments[] = {&word, &round}, *lasting[] = {&ns};
        OK(CU(cuCtxSetCurrent)(contexts[0]));
        OK(cu_launch(functions[0], NULL, arguments));
        OK(cu_launch(work[0], NULL, lasting));
        OK(CU(cuCtxSetCurrent)(contexts[1]));
        for (int i = 0; i < 5; i++) OK(cu_launch(work[1], NULL, lasting));
        OK(cu_launch(functions[1], NULL, arguments));
        OK(CU(cuCtxSynchronize)());
        OK(CU(cuCtxSetCurrent)(contexts[0]));
        OK(CU(cuCtxSynchronize)());
        printf("round %u\n", round);
    }
    return 0;
}
