// A new context gets the handle of one that is gone, and that another thread still uses: it is met before the call that
// makes it has returned. It counts once: when it is gone, nothing stays charged.
// link: -ldl
#include "cu.h"
#include "held_up.h"

static CUcontext gone;

static void *creates(void *unused) {
    (void)unused;
    OK(CU(cuCtxDestroy_v2)(gone));
    OK(CU(cuCtxCreate_v2)(place, 0, 0));
    return NULL;
}

int main(void) {
    CUmemGenericAllocationHandle all;
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    size_t free_bytes, total;
    OK(CU(cuInit)(0));
    OK(CU(cuCtxCreate_v2)(&gone, 0, 0));
    hold_up(creates);
    OK(CU(cuCtxSetCurrent)(gone));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    let_go();
    MUST(*(CUcontext *)place == gone);
    OK(CU(cuCtxDestroy_v2)(gone));
    OK(CU(cuMemCreate)(&all, 1024 * MIB, &device, 0));
    return 0;
}
