// Calls cuInit, and prints what it answered and how many milliseconds that took. Then holds until its standard input ends.
// link: -ldl
#include "cu.h"

int main(void) {
    uint64_t begin = now_ns();
    CUresult result = CU(cuInit)(0);
    printf("init=%d\nmilliseconds=%lu\n", result, (now_ns() - begin) / 1000000);
    stop_here("ready");
    return 0;
}
