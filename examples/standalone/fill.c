/* Takes device memory in blocks of 256 MiB until there is no more, and says what it got.
 *
 * An ordinary CUDA program: it opens the driver itself, as the CUDA runtime does, and knows
 * nothing of quotas. Nothing of CUDA is needed to build it:  cc fill.c -o fill -ldl
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int result; /* CUresult */
enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };

static void *driver;

/* The driver's function of this name. */
static void *function(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "fill: the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

static void check(const char *call, result code) {
    if (code != SUCCESS) {
        fprintf(stderr, "fill: %s failed with CUDA error %d\n", call, code);
        exit(1);
    }
}

int main(void) {
    const size_t block = (size_t)256 << 20;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "fill: no CUDA driver: %s\n", dlerror());
        return 1;
    }
    result (*init)(unsigned) = function("cuInit");
    result (*device_get)(int *, int) = function("cuDeviceGet");
    result (*total_mem)(size_t *, int) = function("cuDeviceTotalMem_v2");
    result (*retain)(void **, int) = function("cuDevicePrimaryCtxRetain");
    result (*set_current)(void *) = function("cuCtxSetCurrent");
    result (*mem_alloc)(unsigned long long *, size_t) = function("cuMemAlloc_v2");

    int device;
    void *context;
    size_t total;
    check("cuInit", init(0));
    check("cuDeviceGet", device_get(&device, 0));
    check("cuDeviceTotalMem", total_mem(&total, device));
    check("cuDevicePrimaryCtxRetain", retain(&context, device));
    check("cuCtxSetCurrent", set_current(context));
    printf("the device shows %zu MiB\n", total >> 20);

    int blocks = 0;
    unsigned long long address;
    result code;
    while ((code = mem_alloc(&address, block)) == SUCCESS)
        blocks++;
    printf("got %d blocks of 256 MiB, then CUDA error %d%s\n", blocks, code,
           code == OUT_OF_MEMORY ? " (out of memory)" : "");
    return code == OUT_OF_MEMORY ? 0 : 1;
}
