// A kernel on one stream spins until a kernel on another stream has run, which is launched after
// it. A gate that waits for work in flight to end would never let the second one through.
// link: -ldl
#include "cu.h"

int main(void) {
    cu_begin();
    CUfunction wait = cu_kernel("sim_wait_word"), store = cu_kernel("sim_store_word");
    CUstream first, second;
    CUdeviceptr word;
    OK(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemAlloc_v2)(&word, 4));
    OK(CU(cuMemsetD32_v2)(word, 0, 1));
    for (uint32_t round = 1; round <= 3; round++) {
        void *arguments[] = {&word, &round};
        OK(cu_launch(wait, first, arguments));
        OK(cu_work(second, 100000));
        OK(cu_launch(store, second, arguments));
        OK(CU(cuStreamSynchronize)(first));
        OK(CU(cuStreamSynchronize)(second));
        printf("round %u\n", round);
    }
    return 0;
}
