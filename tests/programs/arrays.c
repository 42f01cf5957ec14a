// Arrays of every shape are charged what the device needs for them, by every function that makes them.
// Argument: the bytes whose multiples the device takes.
// link: -ldl
#include "account.h"

typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct {
    unsigned Width, Height;
    int Format;
    unsigned NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef struct {
    unsigned Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
CUresult cuArrayCreate(CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *);
CUresult cuArray3DCreate(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *);
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);

enum { U8 = 1, U16 = 2, U32 = 3, S8 = 8, S16 = 9, S32 = 10, HALF = 0x10, FLOAT = 0x20, UNORM16X4 = 0xc5, BC1 = 0x91, BC7 = 0x9d };
enum { LAYERED = 1, CUBEMAP = 4 };

static size_t grain;

static size_t up(size_t bytes) { return (bytes + grain - 1) / grain * grain; }

static const struct {
    CUDA_ARRAY3D_DESCRIPTOR of;
    size_t bytes;
} shapes[] = {
    {{100, 0, 0, FLOAT, 4, 0}, 1600},
    {{1, 0, 0, U8, 1, 0}, 1},
    {{1000, 0, 0, S16, 2, 0}, 4000},
    {{640, 480, 0, U8, 4, 0}, 640 * 480 * 4},
    {{641, 479, 0, HALF, 2, 0}, 641 * 479 * 4},
    {{64, 32, 16, S32, 1, 0}, 64 * 32 * 16 * 4},
    {{64, 0, 16, U32, 2, LAYERED}, 64 * 16 * 8},
    {{64, 32, 16, U16, 1, LAYERED}, 64 * 32 * 16 * 2},
    {{32, 32, 6, FLOAT, 1, CUBEMAP}, 32 * 32 * 6 * 4},
    {{32, 32, 12, S8, 4, CUBEMAP | LAYERED}, 32 * 32 * 12 * 4},
    {{100, 50, 0, UNORM16X4, 4, 0}, 100 * 50 * 8},
    {{130, 66, 0, BC1, 4, 0}, 33 * 17 * 8},
    {{130, 66, 0, BC7, 4, 0}, 33 * 17 * 16},
};

// All levels; layers do not shrink, everything else does.
static size_t levels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned count, size_t element) {
    size_t sum = 0, longest = d->Width;
    if (d->Height > longest) longest = d->Height;
    if (d->Depth > longest) longest = d->Depth;
    for (unsigned level = 0; level < count && longest >> level; level++) {
        size_t width = d->Width >> level ? d->Width >> level : 1, height = d->Height >> level ? d->Height >> level : 1;
        size_t depth = d->Depth >> level ? d->Depth >> level : 1;
        if (d->Flags & (LAYERED | CUBEMAP)) depth = d->Depth;
        sum += width * height * depth * element;
    }
    return sum;
}

int main(int count, char **arguments) {
    CUarray array, all[sizeof shapes / sizeof *shapes];
    CUmipmappedArray mipmapped;
    size_t sum = 0;
    grain = count > 1 ? strtoull(arguments[1], NULL, 10) : 512;
    cu_begin();
    SAME(0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const CUDA_ARRAY3D_DESCRIPTOR *d = &shapes[i].of;
        size_t bytes = up(shapes[i].bytes);
        OK(CU(cuArray3DCreate_v2)(&array, d));
        SAME(bytes);
        OK(CU(cuArrayDestroy)(array));
        SAME(0);
        CUDA_ARRAY3D_DESCRIPTOR_v1 old = {d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
        OK(CU(cuArray3DCreate)(&array, &old));
        SAME(bytes);
        OK(CU(cuArrayDestroy)(array));
        SAME(0);
        if (d->Depth || d->Flags) continue;
        OK(CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){d->Width, d->Height, d->Format, d->NumChannels}));
        SAME(bytes);
        OK(CU(cuArrayDestroy)(array));
        OK(CU(cuArrayCreate)(&array, &(CUDA_ARRAY_DESCRIPTOR_v1){d->Width, d->Height, d->Format, d->NumChannels}));
        SAME(bytes);
        OK(CU(cuArrayDestroy)(array));
        SAME(0);
    }
    static const CUDA_ARRAY3D_DESCRIPTOR pyramids[] = {
        {1000, 600, 0, FLOAT, 1, 0}, {64, 64, 64, FLOAT, 1, 0},       {100, 0, 0, FLOAT, 1, 0},
        {64, 64, 6, FLOAT, 1, CUBEMAP}, {64, 16, 5, FLOAT, 1, LAYERED}, {3, 2, 36, FLOAT, 1, 0},
    };
    for (size_t i = 0; i < sizeof pyramids / sizeof *pyramids; i++)
        for (unsigned levels_asked = 1; levels_asked < 14; levels_asked += 4) {
            OK(CU(cuMipmappedArrayCreate)(&mipmapped, &pyramids[i], levels_asked));
            SAME(up(levels(&pyramids[i], levels_asked, 4)));
            OK(CU(cuMipmappedArrayDestroy)(mipmapped));
            SAME(0);
        }

    // Too large by the descriptor: the driver is asked for nothing.
    CUDA_ARRAY3D_DESCRIPTOR large = {16384, 16384, 0, FLOAT, 2, 0};
    REFUSED(cuArray3DCreate_v2, CU(cuArray3DCreate_v2)(&array, &large));
    REFUSED(cuMipmappedArrayCreate, CU(cuMipmappedArrayCreate)(&mipmapped, &large, 3));
    REFUSED(cuArrayCreate_v2, CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){16384, 16384, FLOAT, 2}));
    SAME(0);

    // Too large by what the device needs alone.
    if (grain > 512) {
        CUdeviceptr rest;
        OK(CU(cuMemAlloc_v2)(&rest, GIB - grain / 2));
        REFUSED(cuArrayCreate_v2, CU(cuArrayCreate_v2)(&array, &(CUDA_ARRAY_DESCRIPTOR){100, 1, FLOAT, 1}));
        SAME(GIB - grain / 2);
        OK(CU(cuMemFree_v2)(rest));
    }
    // What the driver refuses is not charged.
    large = (CUDA_ARRAY3D_DESCRIPTOR){10, 20, 7, FLOAT, 1, CUBEMAP};
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuArray3DCreate_v2)(&array, &large));
    large = (CUDA_ARRAY3D_DESCRIPTOR){~(size_t)0, ~(size_t)0, 0, FLOAT, 1, 0};
    IS(CUDA_ERROR_INVALID_VALUE, CU(cuArray3DCreate_v2)(&array, &large));
    SAME(0);

    // All at once, given back in another order; the rest goes with its context.
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        OK(CU(cuArray3DCreate_v2)(&all[i], &shapes[i].of));
        sum += up(shapes[i].bytes);
    }
    SAME(sum);
    for (size_t i = sizeof shapes / sizeof *shapes; i-- > 0;) {
        OK(CU(cuArrayDestroy)(all[i]));
        sum -= up(shapes[i].bytes);
        SAME(sum);
    }
    CUcontext context;
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
    OK(CU(cuArray3DCreate_v2)(&array, &shapes[3].of));
    OK(CU(cuMipmappedArrayCreate)(&mipmapped, &pyramids[0], 5));
    OK(CU(cuCtxDestroy_v2)(context));
    SAME(0);
    return 0;
}
