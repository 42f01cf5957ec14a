// Linked against a name that is of no interest to a quota.
// link: -lcuda -ldl
#include "cu.h"

typedef struct {
    char reserved[64];
} ipc_handle;
CUresult cuIpcOpenMemHandle_by_value(CUdeviceptr *, ipc_handle, unsigned) __asm__("cuIpcOpenMemHandle_v2");

int main(void) {
    CUcontext context;
    CUdeviceptr pointer = 0;
    ipc_handle handle;
    memset(&handle, 0, sizeof handle);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    printf("opened: %d\n", cuIpcOpenMemHandle_by_value(&pointer, handle, 1));
    return 0;
}
