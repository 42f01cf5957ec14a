// What is shown as free can be allocated, although the limit is no multiple of what the driver hands out.
// link: -ldl
#include "account.h"

int main(void) {
    CUdeviceptr pointer;
    size_t free_bytes, total, device;
    cu_begin();
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    OK(CU(cuDeviceTotalMem_v2)(&device, 0));
    MUST(free_bytes == 1000000 / 512 * 512 && total == free_bytes && device == free_bytes);
    OK(CU(cuMemAlloc_v2)(&pointer, free_bytes));
    SAME(free_bytes);
    return 0;
}
