// Allocates and frees without a pause, for as long as asked, as near to the quota as it gets.
//
//   churn SECONDS SEED
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uint64_t end = now_ns() + (uint64_t)(atof(argv[1]) * 1e9);
    unsigned seed = (unsigned)atoi(argv[2]);
    enum { SLOTS = 16 };
    CUdeviceptr held[SLOTS] = {0};
    unsigned long served = 0, refused = 0;
    cu_begin();
    stop_here("ready");
    while (now_ns() < end) {
        int slot = rand_r(&seed) % SLOTS;
        if (held[slot]) {
            OK(CU(cuMemFree_v2)(held[slot]));
            held[slot] = 0;
            continue;
        }
        size_t size = (size_t)(1 + rand_r(&seed) % 128) * MIB + (size_t)(rand_r(&seed) % 1000);
        int result = CU(cuMemAlloc_v2)(&held[slot], size);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            held[slot] = 0;
            refused++;
        } else {
            OK(result);
            served++;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (held[i]) OK(CU(cuMemFree_v2)(held[i]));
    printf("served=%lu\nrefused=%lu\n", served, refused);
    return 0;
}
