// Opens a library with a weak reference to the driver after the process has started, with a driver in the process or none.
//
//   weak_later WEAK_USER [DRIVER]
// link: -ldl
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (argc > 2 && !dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL)) return 3;
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*init)(void) = library ? (int (*)(void))dlsym(library, "weak_init") : 0;
    if (!init) {
        printf("%s\n", dlerror());
        return 1;
    }
    printf("weak cuInit: %d\n", init());
    return 0;
}
