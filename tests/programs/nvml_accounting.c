// What NVML's accounting tells of the first device's processes, and of the pids given.
// link: -ldl
#include "nvml.h"

int main(int argc, char **argv) {
    unsigned pids[64], count = 0;
    unsigned char stats[64];
    OK(NVML(nvmlInit_v2)());
    nvmlDevice_t device = nvml_device("0");
    IS(NVML_ERROR_INSUFFICIENT_SIZE, NVML(nvmlDeviceGetAccountingPids)(device, &count, NULL));
    count = 64;
    OK(NVML(nvmlDeviceGetAccountingPids)(device, &count, pids));
    printf("pids=");
    for (unsigned i = 0; i < count; i++) printf("%s%u", i ? " " : "", pids[i]);
    printf("\n");
    for (int i = 1; i < argc; i++) {
        memset(stats, 0xa5, sizeof stats);
        int result = NVML(nvmlDeviceGetAccountingStats)(device, (unsigned)atoi(argv[i]), stats);
        // What is not found is not in the record either.
        for (size_t j = 0; result && j < sizeof stats; j++) MUST(stats[j] == 0xa5);
        printf("%s: %d\n", argv[i], result);
    }
    printf("no place: %d\n", NVML(nvmlDeviceGetAccountingStats)(device, (unsigned)atoi(argv[1]), NULL));
    return 0;
}
