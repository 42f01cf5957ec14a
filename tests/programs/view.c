// What cuMemGetInfo says at, below and above the limit.
// link: -ldl
#include "cu.h"

static void say(const char *when) {
    size_t free_bytes = 1, total = 1;
    int result = CU(cuMemGetInfo_v2)(&free_bytes, &total);
    printf("%s=%d %zu %zu\n", when, result, free_bytes, total);
}

int main(void) {
    CUdeviceptr pointer = 0, small = 0;
    cu_begin();
    say("begin");
    int result = CU(cuMemAlloc_v2)(&pointer, 512 * MIB);
    printf("alloc=%d\n", result);
    say("half");
    // The last bytes: what is free can be had, and no more.
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    result = free_bytes ? CU(cuMemAlloc_v2)(&small, free_bytes) : -1;
    printf("rest=%d\n", result);
    say("full");
    CUdeviceptr none = 0;
    printf("more=%d\n", CU(cuMemAlloc_v2)(&none, 1));
    if (small) OK(CU(cuMemFree_v2)(small));
    if (pointer) OK(CU(cuMemFree_v2)(pointer));
    say("end");
    return 0;
}
