// The same stub, bound to its own names inside: the shim cannot come between it and itself, and
// still not into a circle.
// link: -ldl -Wl,-Bsymbolic
#include "driver_stub.c"

int stub_alloc(unsigned long long *pointer, size_t size) { return cuMemAlloc_v2(pointer, size); }
int stub_init(void) {
    int device;
    void *context;
    int result = cuInit(0);
    if (!result) result = cuDeviceGet(&device, 0);
    if (!result) result = cuDevicePrimaryCtxRetain(&context, device);
    if (!result) result = cuCtxSetCurrent(context);
    return result;
}
