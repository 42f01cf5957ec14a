// A thread is held up while the driver writes the address that it has allocated, in a context that is destroyed meanwhile. The
// driver gives the address to somebody else, whose charge must stay.
// link: -ldl
#include "account.h"
#include "held_up.h"

static CUcontext going;

static void *allocates(void *unused) {
    (void)unused;
    OK(CU(cuCtxSetCurrent)(going));
    OK(CU(cuMemAlloc_v2)(place, 64 * MIB));
    return NULL;
}

int main(void) {
    CUdeviceptr pointer;
    cu_begin();
    OK(CU(cuCtxCreate_v2)(&going, 0, 0));
    OK(CU(cuCtxPopCurrent_v2)(&going));
    hold_up(allocates);
    OK(CU(cuCtxDestroy_v2)(going));
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    let_go();
    MUST(*(CUdeviceptr *)place == pointer);
    SAME(64 * MIB);
    OK(CU(cuMemFree_v2)(pointer));
    SAME(0);
    return 0;
}
