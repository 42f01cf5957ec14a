// Work queued behind cuStreamWaitValue32 stays in flight until a later launch on another stream
// and a write after it.
// link: -ldl
#include "cu.h"

int main(void) {
    cu_begin();
    CUstream first, second;
    CUdeviceptr word;
    OK(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemAlloc_v2)(&word, 4));
    OK(CU(cuMemsetD32_v2)(word, 0, 1));
    for (uint32_t round = 1; round <= 3; round++) {
        OK(CU(cuStreamWaitValue32_v2)(first, word, round, 0));
        for (int i = 0; i < 5; i++) OK(cu_work(first, 100000));
        for (int i = 0; i < 5; i++) OK(cu_work(second, 100000));
        OK(CU(cuStreamWriteValue32_v2)(second, word, round, 0));
        OK(CU(cuStreamSynchronize)(first));
        printf("round %u\n", round);
    }
    return 0;
}
