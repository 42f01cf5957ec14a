// Everything about the devices that no quota concerns: attributes, names, links between devices.
// link: -ldl
#include "cu.h"

CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuCtxGetLimit(size_t *, int);
CUresult cuCtxGetStreamPriorityRange(int *, int *);
CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);

int main(void) {
    int count, version, value;
    OK(CU(cuInit)(0));
    OK(CU(cuDriverGetVersion)(&version));
    OK(CU(cuDeviceGetCount)(&count));
    printf("version %d, devices %d\n", version, count);
    CUcontext contexts[2];
    for (int i = 0; i < count && i < 2; i++) {
        char name[256] = "", bus[64] = "";
        CUuuid uuid;
        CUdevice again = -1;
        unsigned flags = 0;
        int active = -1;
        printf("device %d: name %d", i, CU(cuDeviceGetName)(name, sizeof name, i));
        printf(" %s, bus %d", name, CU(cuDeviceGetPCIBusId)(bus, sizeof bus, i));
        printf(" %s, by bus %d", bus, CU(cuDeviceGetByPCIBusId)(&again, bus));
        printf(" %d, uuid %d", again, CU(cuDeviceGetUuid_v2)(&uuid, i));
        for (int j = 0; j < 4; j++) printf(" %02x", uuid.bytes[j]);
        printf(", state %d", CU(cuDevicePrimaryCtxGetState)(i, &flags, &active));
        printf(" %u %d\n", flags, active);
        for (int attribute = 0; attribute < 160; attribute++) {
            value = -77;
            int result = CU(cuDeviceGetAttribute)(&value, attribute, i);
            printf("attribute %d: %d %d\n", attribute, result, value);
        }
        for (int other = 0; other < count; other++) {
            value = -77;
            printf("peer %d: %d", other, CU(cuDeviceCanAccessPeer)(&value, i, other));
            printf(" %d\n", value);
            for (int attribute = 0; attribute < 8; attribute++) {
                value = -77;
                printf("link %d %d: %d", other, attribute, CU(cuDeviceGetP2PAttribute)(&value, attribute, i, other));
                printf(" %d\n", value);
            }
        }
        OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
    }
    OK(CU(cuCtxSetCurrent)(contexts[0]));
    if (count > 1) printf("peer access: %d, again %d\n", CU(cuCtxEnablePeerAccess)(contexts[1], 0), CU(cuCtxEnablePeerAccess)(contexts[1], 0));
    for (int limit = 0; limit < 10; limit++) {
        size_t bytes = 77;
        printf("limit %d: %d", limit, CU(cuCtxGetLimit)(&bytes, limit));
        printf(" %zu\n", bytes);
    }
    int low = 77, high = 77;
    printf("priorities: %d", CU(cuCtxGetStreamPriorityRange)(&low, &high));
    printf(" %d %d\n", low, high);

    // What the driver says of memory of each kind.
    CUdeviceptr kinds[3] = {0};
    CUstream stream;
    OK(CU(cuStreamCreate)(&stream, 0));
    OK(CU(cuMemAlloc_v2)(&kinds[0], 4096));
    OK(CU(cuMemAllocManaged)(&kinds[1], 4096, CU_MEM_ATTACH_GLOBAL));
    OK(CU(cuMemAllocAsync)(&kinds[2], 4096, stream));
    OK(CU(cuStreamSynchronize)(stream));
    for (int kind = 0; kind < 3; kind++) {
        // Not those whose answer is an address or a number that differs from run to run.
        for (int attribute = 1; attribute < 20; attribute++) {
            if ((attribute >= 3 && attribute <= 5) || attribute == 7 || attribute == 11 || attribute == 17 || attribute == 19) continue;
            unsigned long long answer[4] = {0};
            int result = CU(cuPointerGetAttribute)(answer, attribute, kinds[kind]);
            printf("memory %d, attribute %d: %d %llu\n", kind, attribute, result, attribute == 1 ? answer[0] != 0 : answer[0]);
        }
        CUdeviceptr base = 0;
        size_t size = 0;
        printf("range: %d", CU(cuMemGetAddressRange_v2)(&base, &size, kinds[kind] + 8));
        printf(" %d %zu\n", base == kinds[kind], size);
    }
    return 0;
}
