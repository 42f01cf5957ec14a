// A library that was opened with RTLD_DEEPBIND uses the driver beside one that was not.
//
//   deepbind LIBRARY [blocks]
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    CUdeviceptr pointer;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&pointer, 4096));
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    MUST(library);
    int (*deep)(void) = (int (*)(void))dlsym(library, "deep_alloc");
    MUST(deep);
    printf("deep: %d\n", deep());
    printf("again: %d\n", deep());
    if (argc > 2) {
        int (*blocks)(void) = (int (*)(void))dlsym(library, "deep_blocks");
        MUST(blocks);
        printf("blocks=%d\n", blocks());
    }
    printf("free: %d\n", CU(cuMemFree_v2)(pointer));
    return 0;
}
