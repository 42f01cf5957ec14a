// A driver library in a link-map namespace of its own, where nothing is preloaded.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void say(const char *what, void *pointer) {
    Dl_info info;
    const char *home = !pointer ? "nowhere" : dladdr(pointer, &info) && strstr(info.dli_fname, "libcuda") ? "the driver" : "elsewhere";
    printf("%s: %s\n", what, home);
}

int main(void) {
    void *apart = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (!apart) {
        printf("%s\n", dlerror());
        return 1;
    }
    void *first = dlsym(apart, "cuMemAlloc_v2");
    say("apart", first);
    say("default", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    // The usual one beside it: two libraries, two answers.
    void *usual = dlopen("libcuda.so.1", RTLD_NOW);
    if (!usual) return 1;
    int (*version)(int *) = (int (*)(int *))dlsym(usual, "cuDriverGetVersion");
    int number = 0;
    printf("version answers %d\n", version(&number));
    say("apart again", dlsym(apart, "cuMemAlloc_v2"));
    printf("the same as before: %d\n", dlsym(apart, "cuMemAlloc_v2") == first);
    return 0;
}
