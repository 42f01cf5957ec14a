// Sparse arrays and those with deferred mapping have no memory of their own; what is mapped there keeps physical memory.
// link: -ldl
#include "account.h"

typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef struct {
    int resourceType;
    union {
        CUmipmappedArray mipmap;
        CUarray array;
    } resource;
    int subresourceType;
    union {
        struct {
            unsigned level, layer, offsetX, offsetY, offsetZ, extentWidth, extentHeight, extentDepth;
        } sparseLevel;
        struct {
            unsigned layer;
            unsigned long long offset, size;
        } miptail;
    } subresource;
    int memOperationType, memHandleType;
    union {
        CUmemGenericAllocationHandle memHandle;
    } memHandle;
    unsigned long long offset;
    unsigned deviceBitMask, flags, reserved[2];
} CUarrayMapInfo;
typedef struct {
    struct {
        unsigned width, height, depth;
    } tileExtent;
    unsigned miptailFirstLevel;
    unsigned long long miptailSize;
    unsigned flags, reserved[4];
} CUDA_ARRAY_SPARSE_PROPERTIES;
typedef struct {
    size_t size, alignment;
    unsigned reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS;
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *, CUarray);
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *, CUmipmappedArray);
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray, CUdevice);
CUresult cuMemMapArrayAsync(CUarrayMapInfo *, unsigned, CUstream);
CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *, unsigned, CUstream);

enum { FLOAT = 0x20, SPARSE = 0x40, DEFERRED = 0x80, MAP = 1, UNMAP = 2, TILE_POOL = 1 };
enum { ARRAY, MIPMAPPED, MIP_TAIL = 1 };

static CUmemGenericAllocationHandle pool(size_t bytes) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    prop.allocFlags.usage = TILE_POOL;
    OK(CU(cuMemCreate)(&handle, bytes, &prop, 0));
    return handle;
}

// Tiles of an array, in units of tiles.
static CUarrayMapInfo tiles(CUarray array, CUmemGenericAllocationHandle memory, unsigned x, unsigned y, unsigned wide,
                            unsigned high) {
    CUarrayMapInfo info = {.resourceType = ARRAY,
                           .resource.array = array,
                           .memOperationType = memory ? MAP : UNMAP,
                           .memHandle.memHandle = memory,
                           .deviceBitMask = 1};
    info.subresource.sparseLevel.offsetX = x * 128;
    info.subresource.sparseLevel.offsetY = y * 128;
    info.subresource.sparseLevel.extentWidth = wide * 128;
    info.subresource.sparseLevel.extentHeight = high * 128;
    info.subresource.sparseLevel.extentDepth = 1;
    return info;
}

static void carry_out(CUarrayMapInfo *list, unsigned count) {
    OK(CU(cuMemMapArrayAsync)(list, count, NULL));
    OK(CU(cuCtxSynchronize)());
}

int main(void) {
    CUDA_ARRAY3D_DESCRIPTOR plane = {1024, 1024, 0, FLOAT, 1, SPARSE}, later = {1000, 1000, 0, FLOAT, 1, DEFERRED};
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUmemGenericAllocationHandle a, b;
    CUarrayMapInfo list[3];
    CUmipmappedArray mipmapped;
    CUarray array;
    CUcontext context;
    cu_begin();

    OK(CU(cuArray3DCreate_v2)(&array, &plane));
    OK(CU(cuArrayGetSparseProperties)(&properties, array));
    MUST(properties.tileExtent.width == 128 && properties.tileExtent.height == 128);
    SAME(0);
    // Mapped in one piece, unmapped in three; the handle is released in between.
    a = pool(4 * MIB);
    list[0] = tiles(array, a, 0, 0, 4, 4);
    carry_out(list, 1);
    OK(CU(cuMemRelease)(a));
    SAME(4 * MIB);
    list[0] = tiles(array, 0, 0, 0, 2, 4);
    list[1] = tiles(array, 0, 2, 0, 2, 1);
    carry_out(list, 2);
    SAME(4 * MIB);
    // Once more what is unmapped already.
    carry_out(list, 2);
    SAME(4 * MIB);
    list[0] = tiles(array, 0, 2, 1, 2, 3);
    carry_out(list, 1);
    SAME(0);

    // Two pools in one list; mapped over by the same; by the per-thread form; the array's end lets go.
    a = pool(2 * MIB);
    b = pool(6 * MIB);
    list[0] = tiles(array, a, 0, 0, 1, 1);
    list[1] = tiles(array, b, 1, 0, 1, 1);
    OK(CU(cuMemMapArrayAsync_ptsz)(list, 2, NULL));
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuMemRelease)(a));
    SAME(8 * MIB);
    list[0] = tiles(array, b, 0, 0, 1, 1);
    carry_out(list, 1);
    SAME(6 * MIB);
    OK(CU(cuMemRelease)(b));
    list[0] = tiles(array, 0, 0, 0, 1, 1);
    carry_out(list, 1);
    SAME(6 * MIB);
    // Refused by the driver: no reference stays.
    list[0] = tiles(array, 0, 0, 0, 1, 1);
    list[0].flags = 1;
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMapArrayAsync)(list, 1, NULL));
    a = pool(2 * MIB);
    list[0] = tiles(array, a, 7, 7, 2, 2);
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuMemMapArrayAsync)(list, 1, NULL));
    OK(CU(cuMemRelease)(a));
    SAME(6 * MIB);
    OK(CU(cuArrayDestroy)(array));
    SAME(0);

    // The tail of a mipmapped array.
    OK(CU(cuMipmappedArrayCreate)(&mipmapped, &plane, 11));
    OK(CU(cuMipmappedArrayGetSparseProperties)(&properties, mipmapped));
    MUST(properties.miptailFirstLevel == 4 && properties.miptailSize);
    a = pool(2 * MIB);
    list[0] = (CUarrayMapInfo){.resourceType = MIPMAPPED,
                               .resource.mipmap = mipmapped,
                               .subresourceType = MIP_TAIL,
                               .subresource.miptail = {0, 0, properties.miptailSize},
                               .memOperationType = MAP,
                               .memHandle.memHandle = a,
                               .deviceBitMask = 1};
    carry_out(list, 1);
    OK(CU(cuMemRelease)(a));
    SAME(2 * MIB);
    list[0].memOperationType = UNMAP;
    list[0].memHandle.memHandle = 0;
    carry_out(list, 1);
    SAME(0);
    OK(CU(cuMipmappedArrayDestroy)(mipmapped));

    // Mapped as a whole, whatever the list says of a part; gone with its context.
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
    OK(CU(cuArray3DCreate_v2)(&array, &later));
    OK(CU(cuArrayGetMemoryRequirements)(&needs, array, 0));
    SAME(0);
    a = pool((needs.size + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
    list[0] = tiles(array, a, 3, 4, 1, 1);
    carry_out(list, 1);
    OK(CU(cuMemRelease)(a));
    SAME(4 * MIB);
    list[0] = tiles(array, 0, 1, 2, 1, 1);
    carry_out(list, 1);
    SAME(0);
    a = pool(4 * MIB);
    list[0] = tiles(array, a, 0, 0, 1, 1);
    carry_out(list, 1);
    OK(CU(cuMemRelease)(a));
    SAME(4 * MIB);
    OK(CU(cuCtxDestroy_v2)(context));
    SAME(0);
    return 0;
}
