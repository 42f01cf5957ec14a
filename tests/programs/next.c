// RTLD_NEXT is relative to whoever asks.
// needs: next_middle next_bottom
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int which(void);
int next_is_stable(void);
void *next_driver_name(const char *);
void *next_in_tail_position(const char *);

static const char *home(void *pointer) {
    Dl_info info;
    if (!pointer) return "nowhere";
    if (!dladdr(pointer, &info)) return "unknown";
    const char *base = strrchr(info.dli_fname, '/');
    base = base ? base + 1 : info.dli_fname;
    static char name[256];
    snprintf(name, sizeof name, "%s", base);
    char *dash = strchr(name, '-'); // The test programs' names end in a hash.
    if (dash) *dash = 0;
    return name;
}

int main(void) {
    printf("which: %d\n", which());
    printf("stable: %d\n", next_is_stable());
    printf("from the program: %s\n", home(dlsym(RTLD_NEXT, "which")));
    printf("default: %s\n", home(dlsym(RTLD_DEFAULT, "which")));
    printf("tail: %s\n", home(next_in_tail_position("which")));
    printf("next malloc: %s\n", home(next_driver_name("malloc")));
    printf("next cuInit: %s\n", home(next_driver_name("cuInit")));
    printf("next cuMemAlloc_v2: %s\n", home(next_driver_name("cuMemAlloc_v2")));
    printf("next missing: %s\n", home(next_driver_name("no_such_function")));
    const char *error = dlerror();
    printf("error: %s\n", error ? "told" : "not told");
    return 0;
}
