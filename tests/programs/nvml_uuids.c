// The UUIDs of the first GPU's instances.
// link: -ldl
#include "nvml.h"

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, unsigned, nvmlDevice_t *);

int main(void) {
    OK(NVML(nvmlInit_v2)());
    nvmlDevice_t gpu = nvml_device("0"), instance;
    printf("instances=");
    for (unsigned i = 0; NVML(nvmlDeviceGetMigDeviceHandleByIndex)(gpu, i, &instance) == NVML_SUCCESS; i++) {
        char uuid[96];
        OK(NVML(nvmlDeviceGetUUID)(instance, uuid, sizeof uuid));
        printf("%s%s", i ? " " : "", uuid);
    }
    printf("\n");
    return 0;
}
