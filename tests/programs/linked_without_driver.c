// A component with undefined driver names, in a container without the driver library: the names are
// found in the preloaded library, and a call must be answered.
//
//   linked_without_driver DRIVER_USER
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    void *library = dlopen(argv[1], RTLD_LAZY);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    printf("cuInit: %d\n", ((int (*)(void))dlsym(library, "user_init"))());
    printf("cuMemAlloc: %d\n", ((int (*)(void))dlsym(library, "user_alloc"))());
    return 0;
}
