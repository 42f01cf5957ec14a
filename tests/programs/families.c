// The other families: pitched, managed, arrays. Each is charged, and given back.
// link: -ldl
#include "cu.h"

static size_t free_kib(void) {
    size_t free_bytes, total;
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    return free_bytes / 1024;
}

int main(void) {
    CUdeviceptr pointer;
    CUarray array;
    size_t pitch, before, attribute_kib;
    cu_begin();

    before = free_kib();
    OK(CU(cuMemAllocPitch_v2)(&pointer, &pitch, 1, 4096, 4));
    printf("pitched: pitch %zu, charged %zu KiB\n", pitch, before - free_kib());
    MUST(before - free_kib() == pitch * 4096 / 1024);
    OK(CU(cuMemFree_v2)(pointer));
    MUST(free_kib() == before);

    OK(CU(cuMemAllocManaged)(&pointer, 100 * MIB, CU_MEM_ATTACH_GLOBAL));
    attribute_kib = before - free_kib();
    printf("managed: charged %zu KiB\n", attribute_kib);
    unsigned managed = 0, type = 0;
    OK(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    printf("managed: attribute %u, type %u\n", managed & 0xff, type);
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocManaged)(&pointer, 1000 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(CU(cuMemFree_v2)(pointer));
    MUST(free_kib() == before);

    // A height of 0 means one dimension, not nothing: 16 MiB each.
    OK(CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){131072, 0, CU_AD_FORMAT_FLOAT, 4}));
    printf("array of one dimension: charged %s\n", before - free_kib() >= 2048 ? "yes" : "no");
    OK(CU(cuArrayDestroy)(array));
    MUST(free_kib() == before);
    OK(CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){4096, 4096, CU_AD_FORMAT_UNSIGNED_INT8, 1}));
    printf("array of two dimensions: charged %s\n", before - free_kib() >= 16384 ? "yes" : "no");
    OK(CU(cuArrayDestroy)(array));
    MUST(free_kib() == before);
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){32768, 32768, CU_AD_FORMAT_FLOAT, 1}));
    return 0;
}
