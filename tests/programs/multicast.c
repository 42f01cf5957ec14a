// Multicast objects have no memory of their own, but keep what is bound to them.
// link: -ldl
#include "account.h"

typedef struct {
    unsigned numDevices;
    size_t size;
    unsigned long long handleTypes, flags;
} CUmulticastObjectProp;
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *, const CUmulticastObjectProp *);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,
                            unsigned long long);
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle, size_t,
                               size_t, unsigned long long);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t,
                                unsigned long long);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t);

int main(void) {
    CUmulticastObjectProp team = {.numDevices = 2, .size = 256 * MIB};
    CUmemAllocationProp device[2];
    CUmemGenericAllocationHandle object, memory[2], more;
    CUdeviceptr at;
    for (int i = 0; i < 2; i++)
        device[i] = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {CU_MEM_LOCATION_TYPE_DEVICE, i}};
    cu_begin();
    OK(CU(cuMulticastCreate)(&object, &team));
    OK(CU(cuMulticastAddDevice)(object, 0));
    OK(CU(cuMulticastAddDevice)(object, 1));
    SAME(0);

    for (int i = 0; i < 2; i++) OK(CU(cuMemCreate)(&memory[i], 64 * MIB, &device[i], 0));
    OK(CU(cuMulticastBindMem)(object, 0, memory[0], 0, 64 * MIB, 0));
    OK(CU(cuMulticastBindMem_v2)(object, 1, 0, memory[1], 0, 64 * MIB, 0));
    for (int i = 0; i < 2; i++) OK(CU(cuMemRelease)(memory[i]));
    SAME(64 * MIB);
    MUST(account_of(1, "requested") == 64 * MIB);
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMulticastUnbind)(object, 0, 2 * MIB, 2 * MIB));
    SAME(64 * MIB);
    OK(CU(cuMulticastUnbind)(object, 1, 0, 64 * MIB));
    SAME(64 * MIB);
    MUST(account_of(1, "requested") == 0);
    OK(CU(cuMulticastUnbind)(object, 0, 0, 64 * MIB));
    SAME(0);

    // By address; the object's end lets go of what is bound, its last mapping included.
    OK(CU(cuMemAddressReserve)(&at, 512 * MIB, 0, 0, 0));
    OK(CU(cuMemCreate)(&more, 32 * MIB, &device[0], 0));
    OK(CU(cuMemMap)(at, 32 * MIB, 0, more, 0));
    OK(CU(cuMulticastBindAddr)(object, 64 * MIB, at, 32 * MIB, 0));
    OK(CU(cuMulticastBindAddr_v2)(object, 0, 128 * MIB, at + 2 * MIB, 2 * MIB, 0));
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMulticastBindAddr)(object, 64 * MIB, at, 32 * MIB, 0));
    OK(CU(cuMemUnmap)(at, 32 * MIB));
    OK(CU(cuMemRelease)(more));
    SAME(32 * MIB);
    OK(CU(cuMemMap)(at + 256 * MIB, 256 * MIB, 0, object, 0));
    OK(CU(cuMemRelease)(object));
    SAME(32 * MIB);
    OK(CU(cuMemUnmap)(at + 256 * MIB, 256 * MIB));
    SAME(0);
    OK(CU(cuMemAddressFree)(at, 512 * MIB));
    return 0;
}
