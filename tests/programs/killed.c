// Kills processes in the middle of a path, at instructions spread over the whole of it, and after each kill looks whether
// the group's account is what the living hold, to the byte.
//
//   killed PATH KILLS REGION
//
// KILLS of 0: at every instruction; on the paths of `cuInit`, which have hundreds of thousands, at twenty behind each system
// call. REGION is the group's file.
// link: -ldl
#include "cu.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#ifdef __x86_64__
#include "steps.h"

// What a client sets; the contexts are in it.
static const size_t LIMIT = 256 * MIB, CONTEXT = 16 * MIB, HELD = 24 * MIB;

static const char *region;
static const char *fresh_group;
static CUcontext context;
static CUdevice device;
static CUdeviceptr pointer;
static CUstream stream;
static CUmemoryPool pool;
static CUmemGenericAllocationHandle handle;
static CUarray array;
static size_t pitch;

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemPoolProps pool_on_device = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUDA_ARRAY_DESCRIPTOR picture = {1024, 1024, CU_AD_FORMAT_FLOAT, 4};

// Looked up before anything is traced.
#define CALLS(use)                                                                                                     \
    use(cuMemAlloc_v2) use(cuMemFree_v2) use(cuMemAllocAsync) use(cuMemFreeAsync) use(cuMemCreate) use(cuMemRelease)    \
        use(cuMemMap) use(cuMemUnmap) use(cuArrayCreate_v2) use(cuArrayDestroy) use(cuDevicePrimaryCtxRetain)           \
            use(cuDevicePrimaryCtxRelease_v2) use(cuCtxCreate_v2) use(cuCtxDestroy_v2) use(cuMemPoolCreate)            \
                use(cuMemPoolDestroy) use(cuMemAllocFromPoolAsync) use(cuMemAllocManaged) use(cuMemAllocPitch_v2)      \
                    use(cuInit) use(cuStreamSynchronize) use(cuMemPoolTrimTo)
#define DECLARE(name) static __typeof__(name) *call_##name;
CALLS(DECLARE)
#define LOOK_UP(name) call_##name = CU(name);

// Each path: what comes before it, and itself. No check inside a path: what it calls is stepped through.
static void nothing(void) {}
static void begun(void) { context = cu_begin(); }
static void initialised(void) {
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceGet)(&device, 0));
}
static void alloc(void) { call_cuMemAlloc_v2(&pointer, 7 * MIB); }
static void allocated(void) { begun(), alloc(); }
static void free_it(void) { call_cuMemFree_v2(pointer); }
static void streaming(void) {
    begun();
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
}
static void alloc_async(void) { call_cuMemAllocAsync(&pointer, 7 * MIB, stream); }
static void allocated_async(void) { streaming(), alloc_async(); }
static void free_async(void) {
    call_cuMemFreeAsync(pointer, stream);
    call_cuStreamSynchronize(stream);
}
static void create(void) { call_cuMemCreate(&handle, 8 * MIB, &on_device, 0); }
static void created(void) { begun(), create(); }
static void release(void) { call_cuMemRelease(handle); }
static void reserved(void) {
    created();
    OK(CU(cuMemAddressReserve)(&pointer, 8 * MIB, 0, 0, 0));
}
static void map(void) {
    call_cuMemMap(pointer, 8 * MIB, 0, handle, 0);
    call_cuMemRelease(handle);
}
static void mapped(void) { reserved(), map(); }
static void unmap(void) { call_cuMemUnmap(pointer, 8 * MIB); }
static void array_create(void) { call_cuArrayCreate_v2(&array, &picture); }
static void array_created(void) { begun(), array_create(); }
static void array_destroy(void) { call_cuArrayDestroy(array); }
static void retain(void) { call_cuDevicePrimaryCtxRetain(&context, device); }
static void release_context(void) { call_cuDevicePrimaryCtxRelease_v2(device); }
static void context_create(void) { call_cuCtxCreate_v2(&context, 0, device); }
static void context_created(void) {
    initialised(), context_create();
    OK(CU(cuMemAlloc_v2)(&pointer, 5 * MIB));
}
static void context_destroy(void) { call_cuCtxDestroy_v2(context); }
static void pool_create(void) {
    call_cuMemPoolCreate(&pool, &pool_on_device);
    call_cuMemAllocFromPoolAsync(&pointer, 7 * MIB, pool, stream);
}
static void pool_created(void) {
    streaming(), pool_create();
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
}
static void pool_destroy(void) {
    call_cuMemPoolTrimTo(pool, 0);
    call_cuMemPoolDestroy(pool);
}
static void managed(void) { call_cuMemAllocManaged(&pointer, 7 * MIB, CU_MEM_ATTACH_GLOBAL); }
static void pitched(void) { call_cuMemAllocPitch_v2(&pointer, &pitch, 1000, 7001, 4); }
static void init(void) { call_cuInit(0); }
// In a group that nobody has been in.
static void in_a_fresh_group(void) {
    setenv("GPU_QUOTA_GROUP", fresh_group, 1);
    // For the simulator too: it has a limit of its own.
    setenv("GPU_SIM_TENANT", fresh_group, 1);
}
static void before_a_corpse(void);
// What is left with the corpse reaped.
static void reap(void) { call_cuMemAlloc_v2(&pointer, LIMIT - 2 * CONTEXT - HELD); }

static const struct path {
    const char *name;
    void (*before)(void);
    void (*path)(void);
} paths[] = {
    {"alloc", begun, alloc},
    {"free", allocated, free_it},
    {"alloc_async", streaming, alloc_async},
    {"free_async", allocated_async, free_async},
    {"create", begun, create},
    {"release", created, release},
    {"map", reserved, map},
    {"unmap", mapped, unmap},
    {"array_create", begun, array_create},
    {"array_destroy", array_created, array_destroy},
    {"retain", initialised, retain},
    {"release_context", begun, release_context},
    {"context_create", initialised, context_create},
    {"context_destroy", context_created, context_destroy},
    {"pool_create", streaming, pool_create},
    {"pool_destroy", pool_created, pool_destroy},
    {"managed", begun, managed},
    {"pitched", begun, pitched},
    {"attach", nothing, init},
    {"attach_first", in_a_fresh_group, init},
    {"reap", before_a_corpse, reap},
};

// A process of the group that says where it stands and waits.
static pid_t child_of(void (*before)(void), int *says, int *hears) {
    int up[2], down[2];
    MUST(!pipe(up) && !pipe(down));
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(up[0]), close(down[1]);
        *says = up[1], *hears = down[0];
        before();
        return 0;
    }
    close(up[1]), close(down[0]);
    *says = down[1], *hears = up[0];
    return child;
}

// Ends this program unless the other answers in time: nobody waits for the dead.
static char answer(int from) {
    struct pollfd ready = {.fd = from, .events = POLLIN};
    char byte = 0;
    MUST(poll(&ready, 1, 30000) == 1);
    MUST(read(from, &byte, 1) == 1);
    return byte;
}

// One who has left memory and a slot behind.
static void before_a_corpse(void) {
    int says, hears;
    pid_t corpse = child_of(allocated, &says, &hears);
    if (!corpse) {
        MUST(write(says, "!", 1) == 1);
        for (;;) pause();
    }
    MUST(answer(hears) == '!');
    begun();
    kill(corpse, SIGKILL);
    MUST(waitpid(corpse, NULL, 0) == corpse);
}

// What the words of the region say, as docs/shared-memory.md draws them.
static void words(uint64_t *held, uint64_t *asking, int *owners) {
    static const uint64_t *map;
    if (!map) {
        int file = open(region, O_RDONLY);
        map = mmap(NULL, 0x4b080, PROT_READ, MAP_SHARED, file, 0);
        MUST(file >= 0 && map != MAP_FAILED);
        close(file);
    }
    *held = *asking = 0, *owners = 0;
    for (int slot = 0; slot < 512; slot++) {
        uint64_t word = __atomic_load_n(&map[0xa080 / 8 + slot], __ATOMIC_RELAXED);
        uint32_t low = word & 0x3fffffff;
        *held += (word >> 32) * 512;
        *asking += low == 0x3fffffff ? 0 : low * (uint64_t)512;
        *owners += __atomic_load_n(&map[0x2080 / 8 + slot * 8], __ATOMIC_RELAXED) != 0;
    }
}

// What the simulator says is held for requests.
static uint64_t truth(void) {
    static char json[1 << 20];
    int needed = CU(gpuSimSnapshot)(json, sizeof json);
    MUST(needed > 0 && needed < (int)sizeof json);
    char *requested = strstr(json, "\"requested\":");
    MUST(requested);
    return strtoull(requested + strlen("\"requested\":"), NULL, 10);
}

// The only one alive: takes all that is left, which is all but its own, and not a byte more.
static void look(void) {
    size_t free_bytes, total;
    CUdeviceptr rest, more;
    OK(CU(cuMemAlloc_v2)(&rest, LIMIT - CONTEXT - HELD));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&more, 1));
    OK(CU(cuMemFree_v2)(rest));
    OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
    MUST(total == LIMIT && free_bytes == LIMIT - CONTEXT - HELD);
    uint64_t held, asking;
    int owners;
    words(&held, &asking, &owners);
    if (held != CONTEXT + HELD || asking != 0 || owners != 1) {
        fprintf(stderr, "held %lu, asked for %lu, by %d\n", held, asking, owners);
        MUST(!"exact");
    }
    MUST(truth() == HELD);
}

// In the fresh group, all of the limit is there for the next one.
static void look_first(void) {
    in_a_fresh_group();
    begun();
    CUdeviceptr all, more;
    OK(CU(cuMemAlloc_v2)(&all, LIMIT - CONTEXT));
    IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAlloc_v2)(&more, 1));
}

static void witness_begins(void) {
    begun();
    OK(CU(cuMemAlloc_v2)(&pointer, HELD));
}

static pid_t start(const struct path *path) {
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        path->before();
        MUST(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        path_begins();
        path->path();
        path_ends();
        _exit(0);
    }
    return child;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const struct path *path = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(paths[i].name, argv[1])) path = &paths[i];
    MUST(path);
    long kills = atol(argv[2]);
    region = argv[3];
    fresh_group = getenv("FRESH_GROUP");
    if (!may_trace()) return 0;
    find_all_code();
    CALLS(LOOK_UP)

    int says, hears;
    pid_t witness = child_of(witness_begins, &says, &hears);
    if (!witness) {
        char byte = '!';
        do {
            if (byte == '?') look();
            MUST(write(says, "!", 1) == 1);
        } while (read(hears, &byte, 1) == 1);
        _exit(0);
    }
    MUST(answer(hears) == '!');

    int is_long = path->path == init;
    static struct units units;
    long stops = 0;
    if (is_long) kill_near(start(path), -1, 0, &stops);
    else kill_at(start(path), -1, &units);
    int all = !kills;
    if (all) kills = is_long ? stops * 20 : units.count;
    unsigned seed = 1;
    long counts[WHERE] = {0};
    for (long i = 0; i < kills; i++) {
        enum where where;
        if (is_long) where = kill_near(start(path), stops * i / kills, rand_r(&seed) % 3000, &stops);
        else where = kill_at(start(path), all ? i : target_of(&units, i, kills, &seed), NULL);
        counts[where]++;
        if (path->before == in_a_fresh_group) {
            pid_t next = fork();
            MUST(next >= 0);
            if (!next) {
                look_first();
                _exit(0);
            }
            int status;
            MUST(waitpid(next, &status, 0) == next && status == 0);
            MUST(!unlink(getenv("FRESH_REGION")));
        }
        MUST(write(says, "?", 1) == 1);
        if (answer(hears) != '!') return 1;
    }
    static const char *const parts[] = {"in the shim", "in the driver", "-", "elsewhere"};
    for (int where = 0; where < WHERE; where++)
        printf("%s=%ld\n", is_long ? parts[where] : where_names[where], counts[where]);
    if (is_long) printf("stops=%ld\n", stops);
    else printf("instructions=%ld\n", units.count);
    printf("kills=%ld\n", kills);
    return 0;
}
#else
int main(void) {
    puts("skipped: x86-64 only");
    return 0;
}
#endif
