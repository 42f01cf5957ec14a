// Everything that NVML tells of devices, without CUDA; the protocols of two calls are kept to on the way.
//
//   nvml_tell INDEX|UUID...
// link: -ldl
#include "nvml.h"

// Room for more than there is, and what lies in it before.
enum { ROOM = 64, FILL = 0xa5 };

typedef nvmlReturn_t (*list_t)(nvmlDevice_t, unsigned *, void *);

static int is_filled(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != FILL) return 0;
    return 1;
}

static int is_zero(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i]) return 0;
    return 1;
}

// Fetches a list in the documented way; `exact` ones name the number that there is when there is no room.
static unsigned fetch(list_t list, nvmlDevice_t device, void *records, size_t size, int exact) {
    unsigned char *bytes = records;
    memset(bytes, FILL, ROOM * size);
    unsigned asked = 0, count = ROOM;
    IS(NVML_ERROR_INVALID_ARGUMENT, list(device, NULL, NULL));
    IS(NVML_ERROR_INVALID_ARGUMENT, list(NULL, &count, records));
    nvmlReturn_t first = list(device, &asked, NULL);
    MUST(first == (asked ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS));
    if (asked) {
        // No room for the last one: nothing may be written, and the number is told again.
        unsigned less = asked - 1;
        IS(NVML_ERROR_INSUFFICIENT_SIZE, list(device, &less, records));
        MUST(less == asked && is_filled(bytes, ROOM * size));
        unsigned nowhere = asked;
        IS(NVML_ERROR_INVALID_ARGUMENT, list(device, &nowhere, NULL));
    }
    count = ROOM;
    OK(list(device, &count, records));
    MUST(exact ? count == asked : count <= asked);
    // Nothing of anybody else's stays behind what is told.
    for (unsigned i = count; i < ROOM; i++) MUST(is_filled(bytes + i * size, size) || is_zero(bytes + i * size, size));
    return count;
}

static void processes(const char *what, nvmlDevice_t device, int exact) {
    char name[80];
    nvmlProcessInfo_v1_t old[ROOM];
    nvmlProcessInfo_t second[ROOM], infos[ROOM];
    snprintf(name, sizeof name, "nvmlDeviceGet%sRunningProcesses", what);
    unsigned olds = fetch((list_t)nvml_symbol(name), device, old, sizeof old[0], exact);
    snprintf(name, sizeof name, "nvmlDeviceGet%sRunningProcesses_v2", what);
    unsigned seconds = fetch((list_t)nvml_symbol(name), device, second, sizeof second[0], exact);
    snprintf(name, sizeof name, "nvmlDeviceGet%sRunningProcesses_v3", what);
    unsigned count = fetch((list_t)nvml_symbol(name), device, infos, sizeof infos[0], exact);
    MUST(count == olds && count == seconds);
    printf("%s=", what);
    for (unsigned i = 0; i < count; i++) {
        MUST(old[i].pid == infos[i].pid && old[i].used == infos[i].used);
        MUST(!memcmp(&second[i].gpu_instance, &infos[i].gpu_instance, 2 * sizeof(unsigned)));
        printf("%s%u:%llu", i ? " " : "", infos[i].pid, infos[i].used / MIB);
        if (infos[i].gpu_instance != ~0u) printf("@%u.%u", infos[i].gpu_instance, infos[i].compute_instance);
    }
    printf("\n");
}

static void details(nvmlDevice_t device) {
    nvmlProcessDetail_t array[ROOM];
    nvmlProcessDetailList_t list = {.version = 77};
    MUST(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list) != NVML_SUCCESS);
    IS(NVML_ERROR_INVALID_ARGUMENT, NVML(nvmlDeviceGetRunningProcessDetailList)(device, NULL));
    for (unsigned mode = 0; mode < 3; mode++) {
        list = (nvmlProcessDetailList_t){.version = VERSION(nvmlProcessDetailList_t, 1), .mode = mode};
        nvmlReturn_t first = NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list);
        MUST(first == (list.count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS));
        list.count = ROOM;
        list.array = array;
        OK(NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list));
        printf("detail%u=", mode);
        for (unsigned i = 0; i < list.count; i++) printf("%s%u:%llu", i ? " " : "", array[i].pid, array[i].used / MIB);
        printf("\n");
    }
}

static void utilization(nvmlDevice_t device) {
    nvmlUtilization_t rates = {0, 0};
    nvmlReturn_t result = NVML(nvmlDeviceGetUtilizationRates)(device, &rates);
    printf("rates_result=%d\ngpu=%u\n", result, rates.gpu);
    nvmlProcessUtilizationSample_t samples[ROOM];
    unsigned count = ROOM;
    result = NVML(nvmlDeviceGetProcessUtilization)(device, samples, &count, 0);
    printf("samples=");
    for (unsigned i = 0; result == NVML_SUCCESS && i < count; i++) printf("%s%u:%u", i ? " " : "", samples[i].pid, samples[i].sm);
    printf("\nsamples_result=%d\n", result);
    nvmlProcessUtilizationInfo_t infos[ROOM];
    nvmlProcessesUtilizationInfo_t info = {VERSION(nvmlProcessesUtilizationInfo_t, 1), ROOM, 0, infos};
    result = NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &info);
    printf("infos=");
    for (unsigned i = 0; result == NVML_SUCCESS && i < info.count; i++) printf("%s%u:%u", i ? " " : "", infos[i].pid, infos[i].sm);
    printf("\ninfos_result=%d\n", result);
}

int main(int argc, char **argv) {
    OK(NVML(nvmlInit_v2)());
    for (int i = 1; i < argc; i++) {
        nvmlDevice_t device = nvml_device(argv[i]);
        nvmlMemory_t memory = nvml_memory(device);
        printf("device=%s\ntotal=%llu\nfree=%llu\nused=%llu\n", argv[i], memory.total, memory.free, memory.used);
        processes("Compute", device, 1);
        processes("Graphics", device, 0);
        processes("MPSCompute", device, 0);
        details(device);
        utilization(device);
    }
    OK(NVML(nvmlShutdown)());
    IS(NVML_ERROR_UNINITIALIZED, NVML(nvmlDeviceGetMemoryInfo)(NULL, &(nvmlMemory_t){0}));
    return 0;
}
