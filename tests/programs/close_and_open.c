// Closes the driver's handle between calls, as plugin loaders do.
// link: -ldl
#include "cu.h"

int main(void) {
    for (int i = 0; i < 20; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        MUST(driver);
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
        int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
        int number = 0;
        MUST(init && version && version(&number) == 0 && number > 0);
        if (i > 10) MUST(init(0) == 0);
        dlclose(driver);
    }
    CUdeviceptr pointer;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&pointer, 4096));
    OK(CU(cuMemFree_v2)(pointer));
    printf("done\n");
    return 0;
}
