// NVML's view of memory beside the driver's, and the answers for what is not there.
// link: -ldl
#include "cu.h"

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
    unsigned long long total, free, used;
} memory_v1;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

static void *nvml(const char *name) {
    static void *library;
    if (!library) library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(98);
    }
    return found;
}

static nvmlDevice_t device;

static void say(const char *when) {
    memory_v1 one;
    memory_v2 two = {.version = (unsigned)sizeof(memory_v2) | 2u << 24};
    size_t free_bytes = 0, total = 0;
    OK(((int (*)(nvmlDevice_t, memory_v1 *))nvml("nvmlDeviceGetMemoryInfo"))(device, &one));
    OK(((int (*)(nvmlDevice_t, memory_v2 *))nvml("nvmlDeviceGetMemoryInfo_v2"))(device, &two));
    MUST(one.total == one.free + one.used);
    MUST(two.total == two.free + two.used + two.reserved);
    printf("%s: v1 total %llu free %llu, v2 total %llu free %llu", when, one.total / MIB, one.free / MIB, two.total / MIB,
           two.free / MIB);
    if (CU(cuMemGetInfo_v2)(&free_bytes, &total) == CUDA_SUCCESS) printf(", driver total %zu free %zu", total / MIB, free_bytes / MIB);
    printf("\n");
}

int main(void) {
    CUdeviceptr pointer;
    OK(((int (*)(void))nvml("nvmlInit_v2"))());
    OK(((int (*)(unsigned, nvmlDevice_t *))nvml("nvmlDeviceGetHandleByIndex_v2"))(0, &device));
    say("before CUDA");
    cu_begin();
    say("begin");
    OK(CU(cuMemAlloc_v2)(&pointer, 768 * MIB));
    say("held");
    stop_here("ready");
    OK(CU(cuMemFree_v2)(pointer));
    say("freed");
    // Wrong arguments: NVML's own answers.
    memory_v2 wrong = {.version = 77};
    printf("no place: %d\n", ((int (*)(nvmlDevice_t, memory_v1 *))nvml("nvmlDeviceGetMemoryInfo"))(device, NULL));
    printf("no device: %d\n", ((int (*)(nvmlDevice_t, memory_v2 *))nvml("nvmlDeviceGetMemoryInfo_v2"))(NULL, &wrong));
    printf("odd version: %d\n", ((int (*)(nvmlDevice_t, memory_v2 *))nvml("nvmlDeviceGetMemoryInfo_v2"))(device, &wrong));
    return 0;
}
