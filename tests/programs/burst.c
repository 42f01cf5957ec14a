// One kernel of as many milliseconds as asked, and how long the launches after it are held.
//
//   burst MILLISECONDS
// link: -ldl
#include "cu.h"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    cu_begin();
    OK(cu_work(NULL, strtoull(argv[1], NULL, 10) * 1000000));
    OK(CU(cuCtxSynchronize)());
    uint64_t begin = now_ns();
    for (int i = 0; i < 20; i++) {
        OK(cu_work(NULL, 10000));
        OK(CU(cuCtxSynchronize)());
    }
    printf("held_ms=%lu\n", (now_ns() - begin) / 1000000);
    return 0;
}
