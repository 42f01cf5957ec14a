// A look-up on a handle stays with that handle, whatever the name and whatever else is loaded.
//
//   handles OTHER_LIBRARY
// link: -ldl
#include "cu.h"

static int from(void *handle, const char *name) {
    int (*function)() = (int (*)())dlsym(handle, name);
    Dl_info info;
    if (!function || !dladdr((void *)function, &info)) return 0;
    return strstr(info.dli_fname, "other_driver") != NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const char *names[] = {"cuInit",      "cuMemAlloc_v2",   "cuLaunchKernel", "cuGetProcAddress", "cuGetProcAddress_v2", "nvmlInit_v2",
                           "cudnnCreate", "cublasCreate_v2", "curl_easy_init", "cudaMalloc",       "cuMemAllo"};
    void *other = dlopen(argv[1], RTLD_NOW);
    MUST(other);
    for (int loaded = 0; loaded < 2; loaded++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            printf("%s the driver: %s is the other library's: %d\n", loaded ? "with" : "without", names[i], from(other, names[i]));
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(other, "cuInit");
        printf("its cuInit answers %d\n", init(7));
        if (!loaded) cu_begin();
    }
    CUdeviceptr pointer;
    printf("the driver's own: %d\n", CU(cuMemAlloc_v2)(&pointer, 4096));
    // The same name twice on the driver's handle: the same pointer.
    void *first = dlsym(cu_driver(), "cuMemAlloc_v2");
    for (int i = 0; i < 1000; i++) MUST(dlsym(cu_driver(), "cuMemAlloc_v2") == first);
    MUST(!dlsym(cu_driver(), "cudnnCreate"));
    MUST(!dlsym(cu_driver(), "curl_easy_init"));
    return 0;
}
