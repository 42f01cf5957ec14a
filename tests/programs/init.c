// What cuInit says, and what the devices look like after it.
// link: -ldl
#include "cu.h"

int main(void) {
    int result = CU(cuInit)(0);
    printf("init=%d\n", result);
    if (result != CUDA_SUCCESS) return 0;
    int count = 0;
    OK(CU(cuDeviceGetCount)(&count));
    printf("devices=%d\n", count);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CUuuid uuid;
        size_t total;
        OK(CU(cuDeviceGet)(&device, i));
        OK(CU(cuDeviceTotalMem_v2)(&total, device));
        OK(CU(cuDeviceGetUuid_v2)(&uuid, device));
        printf("total%d=%zu\nuuid%d=GPU-", i, total, i);
        for (int j = 0; j < 16; j++) printf("%s%02x", j == 4 || j == 6 || j == 8 || j == 10 ? "-" : "", uuid.bytes[j]);
        printf("\n");
    }
    return 0;
}
