// Stream-ordered memory: charged, given back whichever call frees it, and a pool's slack is trimmed
// before anything is refused.
// link: -ldl
#include "cu.h"

static void say(const char *when) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    printf("%s=%zu\n", when, free_bytes / MIB);
}

int main(void) {
    CUdeviceptr pointer, other;
    CUmemoryPool pool;
    CUstream stream;
    cu_begin();
    OK(CU(cuStreamCreate)(&stream, 0));
    say("begin");
    OK(CU(cuMemAllocAsync)(&pointer, 256 * MIB, stream));
    say("allocated");
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocAsync)(&other, 900 * MIB, stream));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocAsync_ptsz)(&other, 900 * MIB, stream));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&other, 900 * MIB));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    say("freed in order");

    // Any pairing of the calls.
    OK(CU(cuMemAllocAsync)(&pointer, 256 * MIB, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuStreamSynchronize)(stream));
    say("freed at once");
    int result = CU(cuMemAlloc_v2)(&pointer, 256 * MIB);
    OK(result);
    result = CU(cuMemFreeAsync)(pointer, stream);
    printf("linear freed in order=%d\n", result);
    OK(CU(cuStreamSynchronize)(stream));
    if (result) OK(CU(cuMemFree_v2)(pointer));
    say("linear gone");

    // A pool that keeps what it got: its slack is no reason for a refusal.
    uint64_t threshold = UINT64_MAX;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    OK(CU(cuMemPoolCreate)(&pool, &props));
    OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 768 * MIB, pool, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemAlloc_v2)(&pointer, 768 * MIB));
    say("slack trimmed");
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemPoolDestroy)(pool));
    say("end");
    return 0;
}
