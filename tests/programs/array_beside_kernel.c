// An array is made while a kernel runs that never ends: nothing of it waits for the device.
// link: -ldl
#include "cu.h"

int main(void) {
    CUstream stream;
    CUarray array;
    cu_begin();
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu_launch(cu_kernel("sim_forever"), stream, NULL));
    OK(CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){640, 480, CU_AD_FORMAT_FLOAT, 4}));
    IS(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(stream));
    printf("made\n");
    fflush(stdout);
    _exit(0);
}
