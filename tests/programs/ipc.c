// Two processes that share memory: an exporter, and an importer of the same group or another one. The first argument names
// the case, the second the importer's group (its limit is in IMPORTER_MEMORY). What each is charged is checked step by step.
// link: -ldl
#include "ledger.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

typedef struct {
    char reserved[64];
} Opaque;
CUresult cuIpcGetMemHandle(Opaque *, CUdeviceptr);
CUresult cuIpcOpenMemHandle(CUdeviceptr *, Opaque, unsigned);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, Opaque, unsigned);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuMemPoolExportToShareableHandle(void *, CUmemoryPool, int, unsigned long long);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *, int, unsigned long long);
CUresult cuMemPoolExportPointer(Opaque *, CUdeviceptr);
CUresult cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, Opaque *);
enum { POSIX_FILE = 1, LAZY = 1 };

static int peer;
static const char *name;

static int is(const char *wanted) {
    return !strcmp(name, wanted);
}

static void tell(const void *data, size_t size) {
    MUST(write(peer, data, size) == (ssize_t)size);
}

static void hear(void *data, size_t size) {
    MUST(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void step(void) {
    tell("", 1);
}

static void await(void) {
    char byte;
    hear(&byte, 1);
}

static void give_file(int file) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    MUST(sendmsg(peer, &message, 0) == 1);
}

static int take_file(void) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    int file;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    MUST(recvmsg(peer, &message, 0) == 1);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

#define CHARGED(mib) charged((mib), __LINE__)
static void charged(size_t mib, int line) {
    size_t is_charged = held();
    if (is_charged == mib * MIB) return;
    fprintf(stderr, "line %d: charged %.2f MiB, not %zu\n", line, (double)is_charged / MIB, mib);
    _exit(93);
}

// What the device holds for both of them.
#define DEVICE(mib) MUST(sim_account("requested") == (mib) * MIB)

// What is freed while the importer has it open lives on, and another allocation may take its place in the exporter: of another
// size, with a handle of its own.
static void export_place_again(void) {
    for (int i = 0; i < 2; i++) {
        CUdeviceptr pointer;
        Opaque handle;
        OK(CU(cuMemAlloc_v2)(&pointer, (i ? 16 : 64) * MIB));
        OK(CU(cuIpcGetMemHandle)(&handle, pointer));
        tell(&handle, sizeof handle);
        await();
        OK(CU(cuMemFree_v2)(pointer));
        CHARGED(i ? 80 : 64);
        DEVICE(i ? 80 : 64);
    }
    step();
    await();
}

static void import_place_again(void) {
    CUdeviceptr pointers[2];
    for (int i = 0; i < 2; i++) {
        Opaque handle;
        hear(&handle, sizeof handle);
        OK(CU(cuIpcOpenMemHandle_v2)(&pointers[i], handle, LAZY));
        step();
    }
    await();
    OK(CU(cuIpcCloseMemHandle)(pointers[0]));
    CHARGED(16);
    DEVICE(16);
    OK(CU(cuIpcCloseMemHandle)(pointers[1]));
    CHARGED(0);
    DEVICE(0);
    step();
}

static void export_handle(void) {
    CUdeviceptr pointer;
    Opaque handle, again;
    OK(CU(cuMemAlloc_v2)(&pointer, 64 * MIB));
    OK(CU(cuIpcGetMemHandle)(&handle, pointer));
    OK(CU(cuIpcGetMemHandle)(&again, pointer));
    MUST(!memcmp(&handle, &again, sizeof handle));
    // The driver does not let a process open what is its own.
    CUdeviceptr own;
    MUST(CU(cuIpcOpenMemHandle_v2)(&own, handle, LAZY) != CUDA_SUCCESS);
    CHARGED(64);
    pid_t self = getpid();
    tell(&handle, sizeof handle);
    tell(&self, sizeof self);
    if (is("exporter_is_killed")) pause();
    await();
    CHARGED(64);
    if (is("exporter_frees_first")) OK(CU(cuMemFree_v2)(pointer));
    step();
    await();
    if (!is("exporter_frees_first")) OK(CU(cuMemFree_v2)(pointer));
    CHARGED(0);
}

static void import_handle(int same) {
    CUdeviceptr pointer, again;
    Opaque handle;
    pid_t exporter;
    hear(&handle, sizeof handle);
    hear(&exporter, sizeof exporter);
    CHARGED(same ? 64 : 0);
    if (is("refused")) {
        IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuIpcOpenMemHandle_v2)(&pointer, handle, LAZY));
        IS(CUDA_ERROR_OUT_OF_MEMORY, CU(cuIpcOpenMemHandle)(&pointer, handle, LAZY));
        MUST(CU(gpuSimCalls)("cuIpcCloseMemHandle") == 2);
        CHARGED(0);
        OK(CU(cuMemAlloc_v2)(&pointer, 32 * MIB));
        OK(CU(cuMemFree_v2)(pointer));
        step(), await(), step();
        return;
    }
    OK(CU(cuIpcOpenMemHandle_v2)(&pointer, handle, LAZY));
    CHARGED(64);
    OK(CU(cuIpcOpenMemHandle)(&again, handle, LAZY));
    MUST(pointer == again);
    CHARGED(64);
    OK(CU(cuIpcCloseMemHandle)(pointer));
    CHARGED(64);
    if (is("exporter_is_killed")) {
        char byte;
        kill(exporter, SIGKILL);
        MUST(recv(peer, &byte, 1, 0) == 0);
        // It is gone when its parent has taken note of it, and looked for ten times a second.
        usleep(200000);
        DEVICE(64);
        CHARGED(64);
        OK(CU(cuIpcCloseMemHandle)(pointer));
        CHARGED(0);
        DEVICE(0);
        return;
    }
    step();
    await();
    CHARGED(64);
    DEVICE(64);
    if (is("importers_context_goes")) {
        CUcontext context;
        OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
        OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
        OK(CU(cuCtxSetCurrent)(context));
    } else {
        OK(CU(cuIpcCloseMemHandle)(pointer));
        MUST(CU(cuIpcCloseMemHandle)(pointer) != CUDA_SUCCESS);
    }
    CHARGED(same && !is("exporter_frees_first") ? 64 : 0);
    DEVICE(is("exporter_frees_first") ? 0 : 64);
    step();
}

static void export_pool(void) {
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = POSIX_FILE,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    CUmemoryPool pool;
    CUdeviceptr pointer;
    CUstream stream;
    Opaque data;
    int file = -1;
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuMemPoolCreate)(&pool, &props));
    OK(CU(cuMemAllocFromPoolAsync)(&pointer, 64 * MIB, pool, stream));
    OK(CU(cuMemPoolExportToShareableHandle)(&file, pool, POSIX_FILE, 0));
    OK(CU(cuMemPoolExportPointer)(&data, pointer));
    give_file(file);
    tell(&data, sizeof data);
    await();
    CHARGED(64);
    OK(CU(cuMemFreeAsync)(pointer, stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHARGED(0);
    OK(CU(cuMemPoolDestroy)(pool));
}

static void import_pool(int same) {
    CUmemoryPool pool;
    CUdeviceptr pointer, again;
    CUstream stream;
    Opaque data;
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    int file = take_file();
    hear(&data, sizeof data);
    CHARGED(same ? 64 : 0);
    OK(CU(cuMemPoolImportFromShareableHandle)(&pool, (void *)(intptr_t)file, POSIX_FILE, 0));
    CHARGED(same ? 64 : 0);
    for (int way = 0; way < 3; way++) {
        OK(CU(cuMemPoolImportPointer)(&pointer, pool, &data));
        CHARGED(64);
        OK(CU(cuMemPoolImportPointer)(&again, pool, &data));
        CHARGED(64);
        OK(CU(cuMemFree_v2)(again));
        CHARGED(64);
        OK(way == 0   ? CU(cuMemFree_v2)(pointer)
           : way == 1 ? CU(cuMemFreeAsync)(pointer, stream)
                      : CU(cuMemFreeAsync_ptsz)(pointer, stream));
        CHARGED(same ? 64 : 0);
    }
    // Nothing is allocated from an imported pool.
    MUST(CU(cuMemAllocFromPoolAsync)(&pointer, MIB, pool, stream) != CUDA_SUCCESS);
    CHARGED(same ? 64 : 0);
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemPoolDestroy)(pool));
    CHARGED(same ? 64 : 0);
    step();
}

static pid_t child(int importer, int sockets[2], const char *group) {
    pid_t pid = fork();
    if (pid) return pid;
    peer = sockets[importer];
    close(sockets[!importer]);
    const char *memory = getenv("IMPORTER_MEMORY");
    if (importer && group) {
        setenv("GPU_QUOTA_GROUP", group, 1);
        setenv("GPU_SIM_TENANT", group, 1);
    }
    if (importer && memory) setenv("GPU_QUOTA_MEMORY", memory, 1);
    cu_begin();
    if (is("pool")) {
        importer ? import_pool(!group) : export_pool();
    } else if (is("place_again")) {
        importer ? import_place_again() : export_place_again();
    } else {
        importer ? import_handle(!group) : export_handle();
    }
    exit(0);
}

int main(int argc, char **argv) {
    int sockets[2], status;
    MUST(argc >= 2 && !socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    name = argv[1];
    pid_t exporter = child(0, sockets, argv[2]);
    child(1, sockets, argv[2]);
    close(sockets[0]);
    close(sockets[1]);
    for (int ended = 0; ended < 2; ended++) {
        pid_t pid = wait(&status);
        int killed = pid == exporter && is("exporter_is_killed");
        MUST(pid > 0 && status == (killed ? SIGKILL : 0));
    }
    puts("done");
    return 0;
}
