// Physical memory lives as long as a handle or a mapping refers to it, in whatever order they end.
// link: -ldl
#include "account.h"

static CUmemAllocationProp on(int type, int id) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {type, id}};
}

int main(void) {
    CUmemAllocationProp device = on(CU_MEM_LOCATION_TYPE_DEVICE, 0), other = on(CU_MEM_LOCATION_TYPE_DEVICE, 1);
    CUmemAllocationProp host = on(CU_MEM_LOCATION_TYPE_HOST, 0), numa = on(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    CUmemGenericAllocationHandle a, b, again, more;
    CUdeviceptr at;
    CUcontext context = cu_begin(), second;
    SAME(0);

    // Neither mapped nor released in time.
    OK(CU(cuMemCreate)(&a, 64 * MIB, &device, 0));
    SAME(64 * MIB);
    OK(CU(cuMemRelease)(a));
    SAME(0);
    REFUSED(cuMemCreate, CU(cuMemCreate)(&a, 1026 * MIB, &device, 0));
    SAME(0);

    // Twice at different addresses, a part of it once more, released first.
    OK(CU(cuMemAddressReserve)(&at, 256 * MIB, 0, 0, 0));
    OK(CU(cuMemCreate)(&a, 64 * MIB, &device, 0));
    OK(CU(cuMemMap)(at, 64 * MIB, 0, a, 0));
    OK(CU(cuMemMap)(at + 64 * MIB, 64 * MIB, 0, a, 0));
    OK(CU(cuMemMap)(at + 128 * MIB, 2 * MIB, 0, a, 0));
    OK(CU(cuMemRelease)(a));
    SAME(64 * MIB);
    OK(CU(cuMemUnmap)(at + 64 * MIB, 64 * MIB));
    OK(CU(cuMemUnmap)(at, 64 * MIB));
    SAME(64 * MIB);
    // By any address inside, twice.
    OK(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)(at + 129 * MIB)));
    OK(CU(cuMemRetainAllocationHandle)(&more, (void *)(uintptr_t)(at + 128 * MIB)));
    MUST(again == a && more == a);
    OK(CU(cuMemUnmap)(at + 128 * MIB, 2 * MIB));
    SAME(64 * MIB);
    OK(CU(cuMemRelease)(again));
    SAME(64 * MIB);
    OK(CU(cuMemRelease)(more));
    SAME(0);

    // One unmap of a range that several mappings make up.
    OK(CU(cuMemCreate)(&a, 2 * MIB, &device, 0));
    OK(CU(cuMemCreate)(&b, 4 * MIB, &device, 0));
    OK(CU(cuMemMap)(at, 2 * MIB, 0, a, 0));
    OK(CU(cuMemMap)(at + 2 * MIB, 4 * MIB, 0, b, 0));
    OK(CU(cuMemMap)(at + 6 * MIB, 2 * MIB, 0, a, 0));
    OK(CU(cuMemRelease)(a));
    OK(CU(cuMemRelease)(b));
    SAME(6 * MIB);
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMemUnmap)(at, 3 * MIB));
    SAME(6 * MIB);
    OK(CU(cuMemUnmap)(at, 6 * MIB));
    SAME(2 * MIB);
    OK(CU(cuMemUnmap)(at + 6 * MIB, 2 * MIB));
    SAME(0);

    // A mapping that the driver refuses takes no reference.
    OK(CU(cuMemCreate)(&a, 2 * MIB, &device, 0));
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMap)(at, 4 * MIB, 0, a, 0));
    OK(CU(cuMemRelease)(a));
    SAME(0);

    // Not the device's memory: more than the quota, and nothing is counted.
    OK(CU(cuMemCreate)(&a, 2048 * MIB, &host, 0));
    OK(CU(cuMemCreate)(&b, 2048 * MIB, &numa, 0));
    SAME(0);
    OK(CU(cuMemMap)(at, 2 * MIB, 0, a, 0));
    OK(CU(cuMemRelease)(a));
    OK(CU(cuMemRelease)(b));
    OK(CU(cuMemUnmap)(at, 2 * MIB));
    SAME(0);

    // Another device's, whichever context is current.
    OK(CU(cuMemCreate)(&a, 512 * MIB, &other, 0));
    SAME(0);
    MUST(account_of(1, "requested") == 512 * MIB);
    OK(CU(cuDevicePrimaryCtxRetain)(&second, 1));
    OK(CU(cuCtxSetCurrent)(second));
    MUST(charged() == 512 * MIB);
    REFUSED(cuMemCreate, CU(cuMemCreate)(&b, 514 * MIB, &other, 0));
    OK(CU(cuMemCreate)(&b, 514 * MIB, &device, 0));
    OK(CU(cuMemRelease)(a));
    MUST(charged() == 0 && account_of(1, "requested") == 0);
    OK(CU(cuMemRelease)(b));
    OK(CU(cuCtxSetCurrent)(context));
    SAME(0);

    // Neither a reset nor a destroyed context takes it along.
    OK(CU(cuCtxCreate_v2)(&second, 0, 0));
    OK(CU(cuMemCreate)(&a, 32 * MIB, &device, 0));
    OK(CU(cuMemMap)(at, 32 * MIB, 0, a, 0));
    OK(CU(cuCtxDestroy_v2)(second));
    OK(CU(cuDevicePrimaryCtxReset_v2)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    SAME(32 * MIB);
    OK(CU(cuMemRelease)(a));
    SAME(32 * MIB);
    OK(CU(cuMemUnmap)(at, 32 * MIB));
    SAME(0);
    OK(CU(cuMemAddressFree)(at, 256 * MIB));
    return 0;
}
