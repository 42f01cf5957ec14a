// As libcudart does it: every function by cuGetProcAddress.
//
//   blocks_proc_address v2|v1 [VERSION]
//
// v1 is the 4-argument form of CUDA 11. The functions are asked for by base name; the version
// selects the variant. The look-up function itself is taken from itself first.
// link: -ldl
#include "cu.h"

static int form = 2;
static int version = 12000;
static __typeof__(cuGetProcAddress) *get_v1;
static __typeof__(cuGetProcAddress_v2) *get_v2;

static void *get(const char *symbol) {
    char name[64];
    snprintf(name, sizeof name, "%s", symbol);
    char *suffix = strstr(name, "_v2");
    if (suffix) *suffix = 0;
    void *found = NULL;
    int status = -1;
    int result = form == 2 ? get_v2(name, &found, version, 0, &status) : get_v1(name, &found, version, 0);
    if (result != CUDA_SUCCESS || !found) {
        fprintf(stderr, "%s: %d, status %d\n", name, result, status);
        exit(98);
    }
    return found;
}
#define GET(name) ((__typeof__(name) *)get(#name))
#include "blocks.h"

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    form = strcmp(argv[1], "v1") ? 2 : 1;
    if (argc > 2) version = atoi(argv[2]);
    if (form == 2) {
        get_v2 = CU(cuGetProcAddress_v2);
        get_v2 = (__typeof__(get_v2))get("cuGetProcAddress");
    } else {
        version = argc > 2 ? version : 11040;
        get_v1 = CU(cuGetProcAddress);
        get_v1 = (__typeof__(get_v1))get("cuGetProcAddress");
    }
    return blocks();
}
