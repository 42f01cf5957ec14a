// A library that wraps a function of the library behind it, as OpenMP runtimes, sanitizers and
// profilers do: it must find the next one, not itself.
// needs: next_bottom
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>

int which(void) {
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "which");
    if (next == which) return -1;
    return next ? 10 + next() : -2;
}

// Whether asking again gives the same answer.
int next_is_stable(void) {
    void *first = dlsym(RTLD_NEXT, "which");
    for (int i = 0; i < 1000; i++)
        if (dlsym(RTLD_NEXT, "which") != first) return 0;
    return first != 0;
}

// Names that the shim exports too: behind us there is no driver library.
void *next_driver_name(const char *name) { return dlsym(RTLD_NEXT, name); }

// A wrapper of dlsym's own kind: found by a function that is called in the tail position.
void *next_in_tail_position(const char *name) { return dlsym(RTLD_NEXT, name); }
