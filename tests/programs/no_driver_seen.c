// Ways in which a program finds out whether a driver is there. With no driver loaded, the shim's own
// exported names must not make one appear.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

extern int cuInit(unsigned) __attribute__((weak));
extern int cuMemAlloc_v2(unsigned long long *, size_t) __attribute__((weak));
extern int nvmlInit_v2(void) __attribute__((weak));

static void seen(const char *what, const void *pointer) { printf("%s: %s\n", what, pointer ? "there" : "absent"); }

int main(void) {
    seen("weak cuInit", (const void *)cuInit);
    seen("weak cuMemAlloc_v2", (const void *)cuMemAlloc_v2);
    seen("weak nvmlInit_v2", (const void *)nvmlInit_v2);
    seen("RTLD_DEFAULT cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
    seen("RTLD_DEFAULT cuLaunchKernel", dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
    seen("RTLD_DEFAULT nvmlInit_v2", dlsym(RTLD_DEFAULT, "nvmlInit_v2"));
    seen("RTLD_NEXT cuInit", dlsym(RTLD_NEXT, "cuInit"));
    void *self = dlopen(NULL, RTLD_NOW);
    seen("own handle cuInit", dlsym(self, "cuInit"));
    dlerror();
    seen("own handle cuMemAlloc_v2", dlsym(self, "cuMemAlloc_v2"));
    const char *error = dlerror();
    printf("an error: %s\n", error ? "told" : "not told");
    seen("own handle puts", dlsym(self, "puts"));
    return 0;
}
