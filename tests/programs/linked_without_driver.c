// A program that was linked with the driver's names, in a container without the driver library: the
// names are left undefined here and found in the preloaded library.
// link: -ldl -Wl,--unresolved-symbols=ignore-all
// cflags: -fPIC
#define _GNU_SOURCE
#include <stdio.h>

int cuInit(unsigned);
int cuMemAlloc_v2(unsigned long long *, size_t);

int main(void) {
    unsigned long long pointer = 0;
    printf("cuInit: %d\n", cuInit(0));
    printf("cuMemAlloc: %d\n", cuMemAlloc_v2(&pointer, 4096));
    return 0;
}
