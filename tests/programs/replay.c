// Asks a driver library everything that recorded clients asked, and prints every answer.
//
//   replay LIBRARY QUERIES
//
// LIBRARY is opened as clients do ("libcuda.so.1", "libcuda.so", or a path); names of NVML's are looked
// up in libnvidia-ml.so.1, where there is one. QUERIES has lines
// "proc NAME VERSION FLAGS" and "dlsym NAME", fields parted by tabs. An answer is printed with the
// exported name of the function that it points to, never its address, so that two runs compare
// line by line. The last field says which library the function lies in: the driver or another.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int proc_address_v1(const char *, void **, int, unsigned long long);
typedef int proc_address_v2(const char *, void **, int, unsigned long long, int *);

static char untouched; // Its address marks an out-pointer that nobody wrote.
static struct link_map *driver_map, *nvml_map;

// Whether an address lies in one of the two libraries.
static int at_home(const Dl_info *info) {
    return (driver_map && info->dli_fbase == (void *)driver_map->l_addr) ||
           (nvml_map && info->dli_fbase == (void *)nvml_map->l_addr);
}

static void describe(void *pointer) {
    Dl_info info;
    if (pointer == &untouched) {
        printf("untouched\t-");
    } else if (!pointer) {
        printf("null\t-");
    } else if (!dladdr(pointer, &info)) {
        printf("nowhere\t-");
    } else {
        int exact = info.dli_sname && info.dli_saddr == pointer;
        printf("%s\t%s", exact ? info.dli_sname : "inner",
               at_home(&info) ? "driver" : "other");
    }
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    void *driver = dlopen(argv[1], RTLD_NOW);
    if (!driver) {
        printf("cannot open: %s\n", dlerror());
        return 1;
    }
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    dlinfo(driver, RTLD_DI_LINKMAP, &driver_map);
    if (nvml) dlinfo(nvml, RTLD_DI_LINKMAP, &nvml_map);

    proc_address_v1 *v1 = (proc_address_v1 *)dlsym(driver, "cuGetProcAddress");
    proc_address_v2 *v2 = (proc_address_v2 *)dlsym(driver, "cuGetProcAddress_v2");
    printf("forms\tcuGetProcAddress=%s\tcuGetProcAddress_v2=%s\n", v1 ? "yes" : "no",
           v2 ? "yes" : "no");

    FILE *queries = fopen(argv[2], "r");
    if (!queries) return 2;
    char line[512];
    while (fgets(line, sizeof line, queries)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        char *kind = strsep(&rest, "\t");
        char *name = strsep(&rest, "\t");
        if (!kind || !name) return 2;
        if (!strcmp(kind, "dlsym")) {
            dlerror();
            void *found = dlsym(nvml && !strncmp(name, "nvml", 4) ? nvml : driver, name);
            char *error = dlerror();
            printf("dlsym\t%s\t%s\t", name, error ? error : "ok");
            describe(found);
            continue;
        }
        char *version_text = strsep(&rest, "\t");
        char *flags_text = strsep(&rest, "\t");
        if (!version_text || !flags_text) return 2;
        int version = atoi(version_text);
        unsigned long long flags = strtoull(flags_text, NULL, 10);
        if (v2) {
            void *found = &untouched;
            int status = -1;
            int result = v2(name, &found, version, flags, &status);
            printf("v2\t%s\t%d\t%llu\tresult=%d status=%d\t", name, version, flags, result, status);
            describe(found);
            // A caller may pass no place for the status.
            void *again = &untouched;
            int second = v2(name, &again, version, flags, NULL);
            if (second != result || again != found) {
                printf("v2 without status\t%s\t%d\t%llu\tresult=%d\t", name, version, flags, second);
                describe(again);
            }
        }
        if (v1) {
            void *found = &untouched;
            int result = v1(name, &found, version, flags);
            printf("v1\t%s\t%d\t%llu\tresult=%d\t", name, version, flags, result);
            describe(found);
        }
    }
    return 0;
}
