// The part of NVML that the test programs use, and the ways to name a device. Values and layouts are those of the public
// header.
#ifndef NVML_H
#define NVML_H

#include "cu.h"

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
} nvmlProcessInfo_v1_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} nvmlProcessInfo_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
    unsigned long long used_protected;
} nvmlProcessDetail_t;
typedef struct {
    unsigned version, mode, count;
    nvmlProcessDetail_t *array;
} nvmlProcessDetailList_t;
typedef struct {
    unsigned pid;
    unsigned long long time;
    unsigned sm, memory, encoder, decoder;
} nvmlProcessUtilizationSample_t;
typedef struct {
    unsigned long long time;
    unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;
} nvmlProcessUtilizationInfo_t;
typedef struct {
    unsigned version, count;
    unsigned long long since;
    nvmlProcessUtilizationInfo_t *array;
} nvmlProcessesUtilizationInfo_t;
typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

#define VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t *);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t *);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned *, unsigned long long);
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t, nvmlProcessesUtilizationInfo_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t, nvmlProcessDetailList_t *);
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t, unsigned *, unsigned *);
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t, unsigned, void *);

// As CU(): by dlopen and dlsym.
#define NVML(name) ((__typeof__(name) *)nvml_symbol(#name))

static void *nvml_symbol(const char *name) {
    static void *library;
    if (!library) library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(98);
    }
    return found;
}

// A device by its number or its UUID.
__attribute__((unused)) static nvmlDevice_t nvml_device(const char *name) {
    nvmlDevice_t device = NULL;
    if (name[0] == 'G' || name[0] == 'M')
        OK(NVML(nvmlDeviceGetHandleByUUID)(name, &device));
    else
        OK(NVML(nvmlDeviceGetHandleByIndex_v2)((unsigned)atoi(name), &device));
    return device;
}

// The same device as CUDA's, which has the UUID of an instance without saying that it is one.
__attribute__((unused)) static nvmlDevice_t nvml_of(CUdevice cuda) {
    CUuuid uuid;
    char text[48] = "GPU-";
    nvmlDevice_t device = NULL;
    OK(CU(cuDeviceGetUuid_v2)(&uuid, cuda));
    for (int i = 0, at = 4; i < 16; i++)
        at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
    if (NVML(nvmlDeviceGetHandleByUUID)(text, &device) != NVML_SUCCESS) {
        text[0] = 'M', text[1] = 'I', text[2] = 'G';
        OK(NVML(nvmlDeviceGetHandleByUUID)(text, &device));
    }
    return device;
}

// Both versions of the memory information, which must agree and add up.
__attribute__((unused)) static nvmlMemory_t nvml_memory(nvmlDevice_t device) {
    nvmlMemory_t one;
    nvmlMemory_v2_t two = {.version = VERSION(nvmlMemory_v2_t, 2)};
    OK(NVML(nvmlDeviceGetMemoryInfo)(device, &one));
    OK(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &two));
    MUST(one.free <= one.total && one.used <= one.total && one.used + one.free == one.total);
    MUST(two.free <= two.total && two.used <= two.total && two.reserved <= two.total);
    MUST(two.used + two.free + two.reserved == two.total);
    MUST(one.total == two.total && one.free == two.free);
    return one;
}

#endif
