// Memory of another API: charged to the importer until the object and everything mapped from it is gone; not if somebody of the
// group is charged for it. The "other API" is a process without a quota, or one of the same group (argument).
// link: -ldl
#include "actors.h"

typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct {
    unsigned long long offset, size;
    unsigned flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
typedef struct {
    unsigned long long offset;
    struct {
        size_t Width, Height, Depth;
        int Format;
        unsigned NumChannels, Flags;
    } arrayDesc;
    unsigned numLevels, reserved[16];
} CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
CUresult cuImportExternalMemory(CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *);
CUresult cuDestroyExternalMemory(CUexternalMemory);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *);
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *, CUexternalMemory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuMemExportToShareableHandle(void *, CUmemGenericAllocationHandle, int, unsigned long long);

enum { OPAQUE_FD = 1, POSIX = 1 };
static int in_group;
static CUmemGenericAllocationHandle memory;

static void other_api(char letter) {
    CUmemAllocationProp shared = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .requestedHandleTypes = POSIX,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    int descriptor;
    switch (letter) {
    case 'b':
        if (!in_group) {
            setenv("GPU_QUOTA_MEMORY", "none", 1);
            setenv("GPU_QUOTA_GROUP", getenv("OTHER_GROUP"), 1);
            setenv("GPU_SIM_TENANT", "other API", 1);
        }
        cu_begin();
        OK(CU(cuMemCreate)(&memory, 64 * MIB, &shared, 0));
        break;
    case 's':
        OK(CU(cuMemExportToShareableHandle)(&descriptor, memory, POSIX, 0));
        send_descriptor(descriptor);
        close(descriptor);
        break;
    }
}

static CUexternalMemory import(void) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = OPAQUE_FD, .size = 64 * MIB};
    CUexternalMemory object;
    description.handle.fd = receive_descriptor();
    OK(CU(cuImportExternalMemory)(&object, &description));
    return object;
}

// The importer's part of the view: what the group is charged beyond the exporter's.
#define COUNTED(bytes) MUST(charged() == (in_group ? 64 * MIB : (bytes)))

int main(int count, char **arguments) {
    (void)arguments;
    in_group = count > 1;
    Actor other = actor(other_api);
    tell(&other, 'b');
    cu_begin();
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = OPAQUE_FD, .size = 64 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 4 * MIB, .size = 8 * MIB};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC pyramid = {
        .arrayDesc = {256, 256, 0, CU_AD_FORMAT_FLOAT, 1, 0}, .numLevels = 3};
    CUexternalMemory object;
    CUdeviceptr buffer, rest;
    CUmipmappedArray array;
    CUcontext context;

    tell(&other, 's');
    object = import();
    COUNTED(64 * MIB);
    // What is mapped outlives the object.
    OK(CU(cuExternalMemoryGetMappedBuffer)(&buffer, object, &part));
    OK(CU(cuExternalMemoryGetMappedMipmappedArray)(&array, object, &pyramid));
    OK(CU(cuMemsetD32_v2)(buffer, 7, 1));
    OK(CU(cuDestroyExternalMemory)(object));
    COUNTED(64 * MIB);
    OK(CU(cuMemFree_v2)(buffer));
    COUNTED(64 * MIB);
    OK(CU(cuMipmappedArrayDestroy)(array));
    COUNTED(0);

    // Refused for the quota, unless it is charged already; the descriptor stays the caller's.
    tell(&other, 's');
    description.handle.fd = receive_descriptor();
    OK(CU(cuMemAlloc_v2)(&rest, in_group ? 960 * MIB : 1000 * MIB));
    if (in_group)
        OK(CU(cuImportExternalMemory)(&object, &description));
    else
        REFUSED(cuImportExternalMemory, CU(cuImportExternalMemory)(&object, &description));
    OK(CU(cuMemFree_v2)(rest));
    COUNTED(0);
    if (!in_group) OK(CU(cuImportExternalMemory)(&object, &description));
    COUNTED(64 * MIB);
    OK(CU(cuDestroyExternalMemory)(object));
    COUNTED(0);

    // Refused by the driver: not charged.
    description.type = 8;
    IS(CUDA_ERROR_NOT_SUPPORTED, CU(cuImportExternalMemory)(&object, &description));
    COUNTED(0);

    // Gone with its context, what is mapped included.
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
    tell(&other, 's');
    object = import();
    OK(CU(cuExternalMemoryGetMappedBuffer)(&buffer, object, &part));
    COUNTED(64 * MIB);
    OK(CU(cuCtxDestroy_v2)(context));
    COUNTED(0);
    dismiss(&other);
    return 0;
}
