// Names that a driver of its time lacks are absent, and the rest works.
// link: -ldl
#include "cu.h"

static void say(const char *name) { printf("%s by look-up: %s\n", name, dlsym(cu_driver(), name) ? "there" : "absent"); }

int main(void) {
    CUdeviceptr pointer;
    int blocks = 0;
    say("cuMemAllocAsync");
    say("cuGetProcAddress_v2");
    say("cuMemGetInfo_v2");
    cu_begin();
    while (blocks < 20 && CU(cuMemAlloc_v2)(&pointer, 256 * MIB) == CUDA_SUCCESS) blocks++;
    printf("blocks=%d\n", blocks);
    return 0;
}
