// As numba does it: the unversioned name, and RTLD_GLOBAL.
// link: -ldl
#include "cu.h"
static void *get(const char *name) {
    static void *driver;
    if (!driver) driver = dlopen("libcuda.so", RTLD_LAZY | RTLD_GLOBAL);
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found) exit(98);
    return found;
}
#define GET(name) ((__typeof__(name) *)get(#name))
#include "blocks.h"

int main(void) { return blocks(); }
