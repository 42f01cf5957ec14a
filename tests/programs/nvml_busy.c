// Keeps a device busy until its standard input ends: kernels of 5 ms, eight at a time, so that a busy host does not leave
// the device idle.
// link: -ldl
#include "cu.h"
#include <poll.h>

static int over(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN | POLLHUP};
    return poll(&input, 1, 0) != 0;
}

int main(void) {
    CUdeviceptr held;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&held, 64 * MIB));
    uint64_t begin = now_ns();
    int said = 0;
    while (!over()) {
        for (int i = 0; i < 8; i++) OK(cu_work(NULL, 5000000));
        OK(CU(cuCtxSynchronize)());
        // The samples of a second and more are of work alone by now.
        if (!said && now_ns() - begin > 1400000000) {
            said = 1;
            printf("busy\n");
            fflush(stdout);
        }
    }
    return 0;
}
