// A kernel that never ends, with launches on another stream after it; then the program leaves.
// link: -ldl
#include "cu.h"

int main(void) {
    cu_begin();
    CUstream first, second;
    OK(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
    OK(cu_launch(cu_kernel("sim_forever"), first, NULL));
    for (int i = 0; i < 50; i++) OK(cu_work(second, 100000));
    OK(CU(cuStreamSynchronize)(second));
    IS(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(first));
    printf("done\n");
    fflush(stdout);
    // A program cannot wait for such a kernel, and need not.
    _exit(0);
}
