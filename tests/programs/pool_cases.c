// Pools, under a limit of 256 MiB: after every step the charge is what the device holds.
// link: -ldl
#include "ledger.h"

enum { RESERVED_CURRENT = 5, RESERVED_HIGH = 6, USED_HIGH = 8 };

static CUstream stream, other;

static CUmemoryPool made(int location, uint64_t threshold) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {location, 0}};
    CUmemoryPool pool;
    OK(CU(cuMemPoolCreate)(&pool, &props));
    OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    return pool;
}

static CUmemoryPool keeping(void) {
    return made(CU_MEM_LOCATION_TYPE_DEVICE, UINT64_MAX);
}

// Leaves a pool with so much that it needs no more.
static void leave(CUmemoryPool pool, size_t mib) {
    CUdeviceptr pointer;
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, mib * MIB, pool, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
}

static CUresult allocate(int way, CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool) {
    switch (way) {
    case 0:
        return CU(cuMemAllocAsync)(pointer, bytes, stream);
    case 1:
        return CU(cuMemAllocAsync_ptsz)(pointer, bytes, stream);
    case 2:
        return CU(cuMemAllocFromPoolAsync)(pointer, bytes, pool, stream);
    case 3:
        return CU(cuMemAllocFromPoolAsync_ptsz)(pointer, bytes, pool, stream);
    default:
        return CU(cuMemAlloc_v2)(pointer, bytes);
    }
}

static CUresult release(int way, CUdeviceptr pointer) {
    switch (way) {
    case 0:
        return CU(cuMemFreeAsync)(pointer, other);
    case 1:
        return CU(cuMemFreeAsync_ptsz)(pointer, other);
    default:
        return CU(cuMemFree_v2)(pointer);
    }
}

// Any call that allocates with any call that frees, on another stream.
static void pairings(void) {
    CUmemoryPool pool = made(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    for (int way = 0; way < 15; way++) {
        CUdeviceptr pointer;
        OK(allocate(way % 5, &pointer, 64 * MIB, pool));
        HOLDS(64);
        OK(CU(cuStreamSynchronize)(stream));
        OK(release(way / 5, pointer));
        OK(CU(cuStreamSynchronize)(other));
        HOLDS(0);
    }
    OK(CU(cuMemPoolDestroy)(pool));
}

static void refusals(void) {
    CUdeviceptr pointer, kept;
    CUmemoryPool pool = keeping();
    OK(CU(cuMemAllocAsync)(&kept, 64 * MIB, stream));
    HOLDS(64);
    REFUSED(cuMemAllocAsync, CU(cuMemAllocAsync)(&pointer, 200 * MIB, stream));
    REFUSED(cuMemAllocAsync_ptsz, CU(cuMemAllocAsync_ptsz)(&pointer, 200 * MIB, stream));
    REFUSED(cuMemAllocFromPoolAsync, CU(cuMemAllocFromPoolAsync)(&pointer, 200 * MIB, pool, stream));
    REFUSED(cuMemAllocFromPoolAsync_ptsz, CU(cuMemAllocFromPoolAsync_ptsz)(&pointer, 200 * MIB, pool, stream));
    REFUSED(cuMemAllocAsync, CU(cuMemAllocAsync)(&pointer, SIZE_MAX, stream));
    HOLDS(64);
    OK(CU(cuMemFreeAsync)(kept, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(0);
}

// A pool that keeps what it got: its slack is no reason to refuse anybody.
static void slack(void) {
    CUdeviceptr pointer;
    CUmemoryPool pool = keeping(), second = keeping();
    leave(pool, 192);
    HOLDS(192);
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 250 * MIB, pool, stream));
    HOLDS(256);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(256);
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 192 * MIB, second, stream));
    HOLDS(192);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemAllocAsync)(&pointer, 192 * MIB, stream));
    HOLDS(192);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(0);
    leave(pool, 64);
    leave(second, 128);
    HOLDS(192);
    OK(CU(cuMemAlloc_v2)(&pointer, 200 * MIB));
    HOLDS(200);
    OK(CU(cuMemFree_v2)(pointer));
    HOLDS(0);
}

// More pools than are looked at in one go: each one's slack counts.
static void many_pools(void) {
    CUdeviceptr pointer;
    CUmemoryPool pools[100];
    for (int index = 0; index < 100; index++) {
        pools[index] = keeping();
        if (index >= 93) leave(pools[index], 32);
    }
    HOLDS(7 * 32);
    OK(CU(cuMemAlloc_v2)(&pointer, 256 * MIB));
    HOLDS(256);
    OK(CU(cuMemFree_v2)(pointer));
    for (int index = 0; index < 100; index++) OK(CU(cuMemPoolDestroy)(pools[index]));
    HOLDS(0);
}

// What the program sets and asks of a pool changes what the driver holds, never what is believed.
static void attributes(void) {
    uint64_t zero = 0, reserved = 0;
    CUmemoryPool pool = keeping();
    leave(pool, 100);
    HOLDS(128);
    OK(CU(cuMemPoolSetAttribute)(pool, RESERVED_HIGH, &zero));
    OK(CU(cuMemPoolSetAttribute)(pool, USED_HIGH, &zero));
    HOLDS(128);
    OK(CU(cuMemPoolGetAttribute)(pool, RESERVED_CURRENT, &reserved));
    MUST(reserved == 128 * MIB);
    OK(CU(cuMemPoolTrimTo)(pool, 1 * GIB));
    HOLDS(128);
    OK(CU(cuMemPoolTrimTo)(pool, 0));
    HOLDS(0);
    leave(pool, 100);
    OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
    HOLDS(128);
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(0);
    OK(CU(cuMemPoolDestroy)(pool));
}

// A destroyed pool lives until the last of its memory comes back, and with it what the driver holds for it.
static void destroyed(void) {
    CUdeviceptr pointers[3];
    for (int index = 0; index < 3; index++) {
        CUmemoryPool pool = keeping();
        OK(CU(cuMemAllocFromPoolAsync)(&pointers[index], 3 * MIB, pool, stream));
        OK(CU(cuMemPoolDestroy)(pool));
        IS(CUDA_ERROR_INVALID_VALUE, CU(cuMemPoolDestroy)(pool));
        HOLDS(32 * (index + 1));
    }
    // A new pool may get an old one's handle.
    CUmemoryPool pool = keeping();
    OK(CU(cuMemFree_v2)(pointers[0]));
    HOLDS(64);
    leave(pool, 10);
    HOLDS(96);
    OK(CU(cuMemFreeAsync)(pointers[1], stream));
    OK(CU(cuMemFreeAsync)(pointers[2], stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(32);
    OK(CU(cuMemPoolDestroy)(pool));
    HOLDS(0);
}

// The pool that plain calls take from may be any, and falls back to the device's own.
static void current_pool(void) {
    CUdeviceptr pointer;
    CUmemoryPool pool = keeping();
    OK(CU(cuDeviceSetMemPool)(0, pool));
    OK(CU(cuMemAllocAsync)(&pointer, 64 * MIB, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(64);
    OK(CU(cuMemPoolDestroy)(pool));
    HOLDS(0);
    OK(CU(cuMemAllocAsync)(&pointer, 64 * MIB, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(0);
}

static void on_the_host(void) {
    CUdeviceptr pointer;
    CUmemoryPool host = made(CU_MEM_LOCATION_TYPE_HOST, 0), node = made(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 1 * GIB, host, stream));
    HOLDS(0);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 1 * GIB, node, stream));
    HOLDS(0);
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemPoolTrimTo)(host, 0));
    OK(CU(cuMemPoolDestroy)(host));
    OK(CU(cuMemPoolDestroy)(node));
    HOLDS(0);
}

// The driver takes a whole segment, which is more than fits: undone to the last byte.
static void undone(void) {
    CUdeviceptr linear, kept, pointer;
    OK(CU(cuMemAlloc_v2)(&linear, 200 * MIB));
    OK(CU(cuMemAllocAsync)(&kept, 25 * MIB, stream));
    HOLDS(232);
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocAsync)(&pointer, 10 * MIB, stream));
    HOLDS(232);
    OK(CU(cuMemFree_v2)(linear));
    OK(CU(cuMemAllocAsync)(&pointer, 10 * MIB, stream));
    HOLDS(64);
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemFree_v2)(kept));
    OK(CU(cuStreamSynchronize)(stream));
    HOLDS(0);
}

// With the last context of a device goes what its own pool has handed out; other pools stay.
static void last_context(void) {
    CUcontext context;
    CUdeviceptr pointer, gone;
    CUmemoryPool pool = keeping();
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 64 * MIB, pool, NULL));
    OK(CU(cuMemAllocAsync)(&gone, 64 * MIB, NULL));
    MUST(held() == 128 * MIB);
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    HOLDS(64);
    OK(CU(cuMemFree_v2)(pointer));
    OK(CU(cuMemPoolDestroy)(pool));
    HOLDS(0);
}

// A stream of another device's context, the current one's device being the first, or no context at all.
static void of_another_device(void) {
    CUcontext first, second;
    CUdeviceptr pointer;
    CUstream there;
    OK(CU(cuCtxGetCurrent)(&first));
    OK(CU(cuDevicePrimaryCtxRetain)(&second, 1));
    OK(CU(cuCtxSetCurrent)(second));
    OK(CU(cuStreamCreate)(&there, CU_STREAM_NON_BLOCKING));
    size_t before = held();
    for (int without = 0; without < 2; without++) {
        OK(CU(cuCtxSetCurrent)(without ? NULL : first));
        OK(CU(cuMemAllocAsync)(&pointer, 64 * MIB, there));
        OK(CU(cuCtxSetCurrent)(first));
        HOLDS(0);
        OK(CU(cuCtxSetCurrent)(second));
        MUST(held() == before + 64 * MIB);
        OK(CU(cuMemFreeAsync)(pointer, there));
        OK(CU(cuStreamSynchronize)(there));
        MUST(held() == before);
    }
}

// What the driver gives back while the program waits is there for others without anybody looking.
static void waited(void) {
    CUdeviceptr pointer;
    CUevent event;
    OK(CU(cuEventCreate)(&event, 0));
    OK(CU(cuMemAllocAsync)(&pointer, 200 * MIB, stream));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuEventRecord)(event, stream));
    const char *how = getenv("WAIT");
    OK(!strcmp(how, "context")  ? CU(cuCtxSynchronize)()
       : !strcmp(how, "stream") ? CU(cuStreamSynchronize)(stream)
                                : CU(cuEventSynchronize)(event));
    stop_here("waited");
}

// Plain memory that is freed in a stream's order is held until the stream gets there.
static void in_order(void) {
    CUcontext context;
    CUdeviceptr pointer;
    OK(cu_work(stream, 1000));
    OK(CU(cuStreamSynchronize)(stream));
    size_t code = sim_account("requested");
    for (int way = 0; way < 3; way++) {
        if (way < 2) {
            OK(CU(cuMemAlloc_v2)(&pointer, 128 * MIB));
        } else {
            OK(CU(cuMemAllocManaged)(&pointer, 128 * MIB, CU_MEM_ATTACH_GLOBAL));
        }
        uint64_t begin = now_ns();
        OK(cu_work(stream, 400 * 1000000ull));
        OK(way == 1 ? CU(cuMemFreeAsync_ptsz)(pointer, stream) : CU(cuMemFreeAsync)(pointer, stream));
        size_t charged = held(), real = sim_account("requested");
        // On a machine that was busy elsewhere the work may be over already.
        if (now_ns() - begin < 300 * 1000000ull) MUST(charged == 128 * MIB && (way == 2 || real == code + charged));
        CUresult answer = CU(cuMemAlloc_v2)(&pointer, 200 * MIB);
        if (now_ns() - begin < 300 * 1000000ull) MUST(answer == CUDA_ERROR_OUT_OF_MEMORY);
        if (answer == CUDA_SUCCESS) OK(CU(cuMemFree_v2)(pointer));
        OK(CU(cuStreamSynchronize)(stream));
        MUST(held() == 0 && sim_account("requested") == code);
        OK(CU(cuMemAlloc_v2)(&pointer, 200 * MIB));
        OK(CU(cuMemFreeAsync)(pointer, stream));
        MUST(held() == 0);
    }
    // The event behind the free goes with its context.
    OK(CU(cuMemAlloc_v2)(&pointer, 128 * MIB));
    OK(cu_work(stream, 50 * 1000000ull));
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuDevicePrimaryCtxReset_v2)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    MUST(held() == 0);
}

// A pool that is destroyed while a stream has still to get to where its memory was freed, before or after.
static void dying(void) {
    OK(cu_work(stream, 1000));
    OK(CU(cuStreamSynchronize)(stream));
    size_t code = sim_account("requested");
    for (int way = 0; way < 4; way++) {
        CUdeviceptr pointer;
        CUstream on;
        CUmemoryPool pool = keeping();
        OK(CU(cuStreamCreate)(&on, CU_STREAM_NON_BLOCKING));
        OK(CU(cuMemAllocFromPoolAsync)(&pointer, 128 * MIB, pool, on));
        uint64_t begin = now_ns();
        OK(cu_work(on, 400 * 1000000ull));
        if (way % 2) OK(CU(cuMemPoolDestroy)(pool));
        OK(CU(cuMemFreeAsync)(pointer, on));
        if (way % 2 == 0) OK(CU(cuMemPoolDestroy)(pool));
        size_t charged = held(), real = sim_account("requested");
        CUresult answer = CU(cuMemAlloc_v2)(&pointer, 200 * MIB);
        // On a machine that was busy elsewhere the work may be over already.
        if (now_ns() - begin < 300 * 1000000ull) {
            MUST(charged == 128 * MIB && real == code + charged && answer == CUDA_ERROR_OUT_OF_MEMORY);
        }
        if (answer == CUDA_SUCCESS) OK(CU(cuMemFree_v2)(pointer));
        if (way < 2) OK(CU(cuStreamSynchronize)(on));
        OK(CU(cuStreamDestroy_v2)(on));
        OK(CU(cuCtxSynchronize)());
        while (sim_account("requested") != code) usleep(1000);
        MUST(held() == 0);
    }
    // The stream is gone before the pool is.
    CUdeviceptr pointer;
    CUstream on;
    CUmemoryPool pool = keeping();
    OK(CU(cuStreamCreate)(&on, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 128 * MIB, pool, on));
    OK(CU(cuMemFreeAsync)(pointer, on));
    OK(CU(cuStreamDestroy_v2)(on));
    OK(CU(cuMemPoolDestroy)(pool));
    OK(CU(cuCtxSynchronize)());
    MUST(held() == 0);
}

static void *hammer(void *seed) {
    CUcontext context;
    CUdeviceptr slots[16] = {0};
    uint64_t random = (uintptr_t)seed;
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    uint64_t end = now_ns() + 1500 * 1000000ull;
    while (now_ns() < end) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        CUdeviceptr *slot = &slots[random >> 60];
        if (*slot) OK(CU(cuMemFreeAsync)(*slot, NULL));
        *slot = 0;
        CUresult answer = CU(cuMemAllocAsync)(slot, (1 + (random >> 40) % 20) * MIB, NULL);
        if (answer) *slot = 0;
        MUST(answer == CUDA_SUCCESS || answer == CUDA_ERROR_OUT_OF_MEMORY);
    }
    for (int index = 0; index < 16; index++) {
        if (slots[index]) OK(CU(cuMemFreeAsync)(slots[index], NULL));
    }
    return NULL;
}

// Many threads that take and free without waiting for anything.
static void threads(void) {
    pthread_t all[4];
    for (uintptr_t index = 0; index < 4; index++) pthread_create(&all[index], NULL, hammer, (void *)(index + 1));
    for (int index = 0; index < 4; index++) pthread_join(all[index], NULL);
    OK(CU(cuCtxSynchronize)());
    HOLDS(0);
}

static pthread_barrier_t together;

static void *meet(void *unused) {
    CUcontext context;
    CUdeviceptr address[4] = {0};
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
    pthread_barrier_wait(&together);
    for (int index = 0; index < 4; index++) {
        if (CU(cuMemAllocAsync)(&address[index], 20 * MIB, NULL)) address[index] = 0;
    }
    for (int index = 0; index < 4; index++) {
        if (address[index]) OK(CU(cuMemFreeAsync)(address[index], NULL));
    }
    return unused;
}

// Many threads meet the device's pool at the same moment, where it is full at once.
static void met_at_once(void) {
    enum { THREADS = 8 };
    pthread_t all[THREADS];
    CU(cuMemAllocAsync), CU(cuMemFreeAsync);
    MUST(!pthread_barrier_init(&together, NULL, THREADS));
    for (int index = 0; index < THREADS; index++) pthread_create(&all[index], NULL, meet, NULL);
    for (int index = 0; index < THREADS; index++) pthread_join(all[index], NULL);
    OK(CU(cuCtxSynchronize)());
    HOLDS(0);
}

int main(int argc, char **argv) {
    static const Case cases[] = {
        {"pairings", pairings},   {"refusals", refusals},         {"slack", slack},
        {"attributes", attributes}, {"destroyed", destroyed},     {"current_pool", current_pool},
        {"on_the_host", on_the_host}, {"undone", undone},         {"last_context", last_context},
        {"of_another_device", of_another_device}, {"waited", waited}, {"threads", threads}, {"met_at_once", met_at_once},
        {"many_pools", many_pools}, {"in_order", in_order}, {"dying", dying},
    };
    cu_begin();
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    HOLDS(0);
    return CASES(cases);
}
