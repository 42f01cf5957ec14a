// What contexts cost, and what goes with them. Contexts are charged here what the simulated driver takes for them.
// link: -ldl
#include "account.h"

typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct {
    int type;
    unsigned char padding[92];
    struct {
        unsigned smCount, rest[9];
    } sm;
    void *next;
} CUdevResource;
typedef struct {
    void *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;
CUresult cuCtxCreate(CUcontext *, unsigned, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, void *, int, unsigned, CUdevice);
CUresult cuCtxCreate_v4(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
CUresult cuCtxDestroy(CUcontext);
CUresult cuCtxAttach(CUcontext *, unsigned);
CUresult cuCtxDetach(CUcontext);
CUresult cuCtxSetLimit(int, size_t);
CUresult cuCtxGetLimit(size_t *, int);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuDevicePrimaryCtxReset(CUdevice);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned);
CUresult cuDeviceGetDevResource(CUdevice, CUdevResource *, int);
CUresult cuDevSmResourceSplitByCount(CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned,
                                     unsigned);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *, CUdevResource *, unsigned);
CUresult cuGreenCtxCreate(CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned);
CUresult cuGreenCtxDestroy(CUgreenCtx);
CUresult cuCtxFromGreenCtx(CUcontext *, CUgreenCtx);

enum { CONTEXT = 100 << 20, CU_LIMIT_STACK_SIZE = 0, CU_LIMIT_PRINTF_FIFO_SIZE = 1, CU_LIMIT_MALLOC_HEAP_SIZE = 2 };

// The view needs a living context; without one only the driver's side is looked at. Whole blocks of 2 MiB are held.
static void held(size_t expected, int line) {
    size_t free_bytes, total, shown = expected, real = account_of(0, "used");
    if (!CU(cuMemGetInfo_v2)(&free_bytes, &total)) shown = total - free_bytes;
    if (shown == expected && real == expected) return;
    fprintf(stderr, "line %d: charged %zu, really %zu, expected %zu\n", line, shown, real, expected);
    _exit(93);
}
#define HELD(bytes) held((bytes), __LINE__)

static void versions(void) {
    CUctxCreateParams none = {0};
    CUcontext a, b, c, d;
    OK(CU(cuCtxCreate)(&a, 0, 0));
    HELD(CONTEXT);
    OK(CU(cuCtxCreate_v2)(&b, 0, 0));
    OK(CU(cuCtxCreate_v3)(&c, NULL, 0, 0, 0));
    OK(CU(cuCtxCreate_v4)(&d, &none, 0, 0));
    // Further ones are within the first one's.
    HELD(CONTEXT);
    OK(CU(cuCtxDestroy)(a));
    OK(CU(cuCtxDestroy_v2)(d));
    OK(CU(cuCtxDestroy_v2)(c));
    HELD(CONTEXT);
    OK(CU(cuCtxDestroy_v2)(b));
    HELD(0);
    // Refused by the driver: nothing is charged.
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuCtxCreate_v2)(&a, 1 << 30, 0));
    HELD(0);
}

static void attached(void) {
    CUcontext context, again;
    CUdeviceptr pointer;
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    for (int i = 0; i < 5; i++) {
        OK(CU(cuCtxAttach)(&again, 0));
        MUST(again == context);
        OK(CU(cuCtxDetach)(context));
        HELD(CONTEXT + 64 * MIB);
    }
    OK(CU(cuCtxDetach)(context));
    HELD(0);
}

static void primary(void) {
    CUcontext context, own;
    CUdeviceptr pointer;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    OK(CU(cuDevicePrimaryCtxSetFlags_v2)(0, 4));
    HELD(0);
    for (int i = 0; i < 3; i++) OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    HELD(CONTEXT);
    OK(CU(cuCtxCreate_v2)(&own, 0, 0));
    HELD(CONTEXT);
    OK(CU(cuMemAlloc_v2)(&pointer, 32 * MIB));
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    OK(CU(cuMemAllocManaged)(&pointer, 16 * MIB, 1));
    OK(CU(cuMemCreate)(&handle, 8 * MIB, &device, 0));
    HELD(CONTEXT + 120 * MIB);
    OK(CU(cuDevicePrimaryCtxRelease)(0));
    HELD(CONTEXT + 120 * MIB);
    // A reset takes the primary one's memory, not another context's, nor what belongs to none.
    OK(CU(cuDevicePrimaryCtxReset)(0));
    OK(CU(cuCtxSetCurrent)(own));
    HELD(CONTEXT + 40 * MIB);
    OK(CU(cuCtxDestroy_v2)(own));
    OK(CU(cuCtxSetCurrent)(NULL));
    HELD(8 * MIB);
    // Retained before the reset, and to be released after it.
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    HELD(8 * MIB);
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    HELD(CONTEXT + 8 * MIB);
    OK(CU(cuMemRelease)(handle));
    OK(CU(cuCtxSetCurrent)(NULL));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    HELD(0);
}

static void green(void) {
    CUdevResource all, parts[2];
    CUdevResourceDesc descriptor;
    CUgreenCtx one, two;
    CUcontext context, first, second;
    CUdeviceptr pointer;
    unsigned count = 2;
    OK(CU(cuDeviceGetDevResource)(0, &all, 1));
    OK(CU(cuDevSmResourceSplitByCount)(parts, &count, &all, NULL, 0, 16));
    MUST(count == 2);
    OK(CU(cuDevResourceGenerateDesc)(&descriptor, &parts[0], 1));
    OK(CU(cuGreenCtxCreate)(&one, descriptor, 0, 1));
    HELD(CONTEXT);
    OK(CU(cuGreenCtxCreate)(&two, descriptor, 0, 1));
    OK(CU(cuCtxFromGreenCtx)(&first, one));
    OK(CU(cuCtxFromGreenCtx)(&second, two));
    MUST(first != second);
    HELD(CONTEXT);
    OK(CU(cuCtxSetCurrent)(first));
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    HELD(CONTEXT + 64 * MIB);
    // The memory is the primary context's, which the other one keeps.
    OK(CU(cuCtxSetCurrent)(second));
    OK(CU(cuGreenCtxDestroy)(one));
    HELD(CONTEXT + 64 * MIB);
    OK(CU(cuMemFree_v2)(pointer));
    HELD(CONTEXT);
    OK(CU(cuMemAlloc_v2)(&pointer, 32 * MIB));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuGreenCtxDestroy)(two));
    HELD(CONTEXT + 32 * MIB);
    OK(CU(cuCtxSetCurrent)(NULL));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    HELD(0);
}

static void limits(void) {
    CUcontext context, other;
    size_t stack, before;
    int threads, processors;
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
    // Their defaults are part of the context's.
    OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
    HELD(CONTEXT);
    OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 200 * MIB));
    HELD(CONTEXT + 192 * MIB);
    OK(CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 17 * MIB));
    HELD(CONTEXT + 208 * MIB);
    REFUSED(cuCtxSetLimit, CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 1024 * MIB));
    HELD(CONTEXT + 208 * MIB);
    OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 40 * MIB));
    HELD(CONTEXT + 48 * MIB);
    // Below the default: the context has it all the same.
    OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 1 * MIB));
    HELD(CONTEXT + 16 * MIB);
    // The stack, for each thread that fits on the device at a time.
    OK(CU(cuDeviceGetAttribute)(&threads, 39, 0));
    OK(CU(cuDeviceGetAttribute)(&processors, 16, 0));
    OK(CU(cuCtxGetLimit)(&before, CU_LIMIT_STACK_SIZE));
    OK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, before + 512));
    stack = (size_t)512 * threads * processors;
    HELD(CONTEXT + 16 * MIB + stack);
    REFUSED(cuCtxSetLimit, CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 65536));
    // Each context has its own.
    OK(CU(cuCtxCreate_v2)(&other, 0, 0));
    OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 10 * MIB));
    HELD(CONTEXT + 18 * MIB + stack);
    OK(CU(cuCtxDestroy_v2)(context));
    HELD(CONTEXT + 2 * MIB);
    OK(CU(cuCtxDestroy_v2)(other));
    HELD(0);
}

// A context that does not fit is refused, by every function that makes one.
static void no_room(void) {
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUctxCreateParams none = {0};
    CUdevResource all;
    CUdevResourceDesc descriptor;
    CUgreenCtx green;
    CUcontext context;
    OK(CU(cuMemCreate)(&handle, 960 * MIB, &device, 0));
    REFUSED(cuCtxCreate, CU(cuCtxCreate)(&context, 0, 0));
    REFUSED(cuCtxCreate_v2, CU(cuCtxCreate_v2)(&context, 0, 0));
    REFUSED(cuCtxCreate_v3, CU(cuCtxCreate_v3)(&context, NULL, 0, 0, 0));
    REFUSED(cuCtxCreate_v4, CU(cuCtxCreate_v4)(&context, &none, 0, 0));
    REFUSED(cuDevicePrimaryCtxRetain, CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuDeviceGetDevResource)(0, &all, 1));
    OK(CU(cuDevResourceGenerateDesc)(&descriptor, &all, 1));
    REFUSED(cuGreenCtxCreate, CU(cuGreenCtxCreate)(&green, descriptor, 0, 1));
    HELD(960 * MIB);
    OK(CU(cuMemRelease)(handle));
    HELD(0);
}

int main(void) {
    OK(CU(cuInit)(0));
    versions();
    attached();
    primary();
    green();
    limits();
    no_room();
    versions();
    return 0;
}
