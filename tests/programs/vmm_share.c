// Memory that one process exports and another imports: charged once inside a group, for as long as anybody there holds it.
// Argument: the importer's group, if it is to be another one.
// link: -ldl
#include "actors.h"

enum { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
CUresult cuMemExportToShareableHandle(void *, CUmemGenericAllocationHandle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, int);

static CUmemGenericAllocationHandle handle, twin;
static CUdeviceptr at;
static int descriptor;
static const char *other_group;
static size_t here;

static void import(CUmemGenericAllocationHandle *into) {
    void *number = (void *)(uintptr_t)descriptor;
    OK(CU(cuMemImportFromShareableHandle)(into, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

static void export_act(char letter) {
    CUmemAllocationProp shared = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    switch (letter) {
    case 'c':
        cu_begin();
        OK(CU(cuMemAddressReserve)(&at, 64 * MIB, 0, 0, 0));
        OK(CU(cuMemCreate)(&handle, 64 * MIB, &shared, 0));
        OK(CU(cuMemMap)(at, 64 * MIB, 0, handle, 0));
        SAME(64 * MIB);
        break;
    case 'e':
        OK(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        SAME(64 * MIB);
        // Into the same process: another handle of the same memory.
        import(&twin);
        SAME(64 * MIB);
        OK(CU(cuMemRelease)(twin));
        SAME(64 * MIB);
        send_descriptor(descriptor);
        break;
    case 'r':
        OK(CU(cuMemUnmap)(at, 64 * MIB));
        OK(CU(cuMemRelease)(handle));
        close(descriptor);
        MUST(charged() == 64 * MIB);
        break;
    }
}

// `here` is what the importer's group is charged, and `own` what that group took itself.
// The dead are looked for now and then, not at every question.
static void counted(size_t device, int line) {
    for (int tries = 0; tries < 500; tries++) {
        if (charged() == here && REALLY() == device) return;
        usleep(10000);
    }
    fprintf(stderr, "line %d: charged %zu, not %zu; really %zu, not %zu\n", line, charged(), here, REALLY(), device);
    _exit(91);
}
#define COUNTED(device) counted((device), __LINE__)

static void import_act(char letter) {
    switch (letter) {
    case 'b':
        if (other_group) {
            setenv("GPU_QUOTA_GROUP", other_group, 1);
            setenv("GPU_SIM_TENANT", other_group, 1);
            setenv("GPU_QUOTA_MEMORY", "96MiB", 1);
        }
        cu_begin();
        OK(CU(cuMemAddressReserve)(&at, 64 * MIB, 0, 0, 0));
        break;
    case 'i':
        descriptor = receive_descriptor();
        import(&handle);
        close(descriptor);
        // Of unknown size until it is mapped.
        here = other_group ? 0 : 64 * MIB;
        COUNTED(64 * MIB);
        break;
    case 'o': {
        // No room for it in this group: refused when it is mapped, and nothing stays.
        CUdeviceptr own;
        OK(CU(cuMemAlloc_v2)(&own, 48 * MIB));
        here += 48 * MIB;
        REFUSED(cuMemMap, CU(cuMemMap)(at, 64 * MIB, 0, handle, 0));
        COUNTED(112 * MIB);
        OK(CU(cuMemFree_v2)(own));
        here -= 48 * MIB;
        break;
    }
    case 'm':
        OK(CU(cuMemMap)(at, 2 * MIB, 0, handle, 0));
        OK(CU(cuMemUnmap)(at, 2 * MIB));
        OK(CU(cuMemMap)(at, 64 * MIB, 0, handle, 0));
        OK(CU(cuMemRelease)(handle));
        here = 64 * MIB;
        COUNTED(64 * MIB);
        break;
    case 'l':
        // The exporter has let go of it.
        COUNTED(64 * MIB);
        break;
    case 'd': {
        // The exporter has gone, and is cleared away after, before anything is refused; the memory is still here.
        CUdeviceptr none;
        REFUSED(cuMemAlloc_v2, CU(cuMemAlloc_v2)(&none, 2 * GIB));
        COUNTED(64 * MIB);
        break;
    }
    case 'u':
        OK(CU(cuMemUnmap)(at, 64 * MIB));
        here = 0;
        COUNTED(0);
        break;
    }
}

int main(int count, char **arguments) {
    other_group = count > 1 ? arguments[1] : NULL;
    Actor exporter = actor(export_act), importer = actor(import_act);
    tell(&exporter, 'c');
    tell(&exporter, 'e');
    tell(&importer, 'b');
    tell(&importer, 'i');
    if (other_group) tell(&importer, 'o');
    tell(&importer, 'm');
    tell(&exporter, 'r');
    tell(&importer, 'l');
    dismiss(&exporter);
    tell(&importer, 'd');
    tell(&importer, 'u');
    dismiss(&importer);
    return 0;
}
