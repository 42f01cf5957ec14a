// Two files of the driver in one process: the second one is the driver as well, in what is hooked and in what is not.
//
//   two_copies FILE...
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *driver = dlopen(argv[i], RTLD_NOW);
        MUST(driver != NULL);
        __typeof__(cuInit) *init = dlsym(driver, "cuInit");
        __typeof__(cuDeviceGetName) *name = dlsym(driver, "cuDeviceGetName");
        __typeof__(cuCtxCreate_v2) *create = dlsym(driver, "cuCtxCreate_v2");
        __typeof__(cuMemAlloc_v2) *alloc = dlsym(driver, "cuMemAlloc_v2");
        CUcontext context;
        CUdeviceptr pointer;
        char text[64];
        int blocks = 0;
        OK(init(0));
        OK(name(text, sizeof text, 0));
        OK(create(&context, 0, 0));
        while (blocks < 20 && alloc(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
        printf("blocks%d=%d\n", i, blocks);
    }
    return 0;
}
