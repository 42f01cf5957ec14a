//! Device memory: allocations, pools, physical memory, arrays, and the views of it.

use super::Class::{Charges, Lifetime, Queries, Refunds};
use super::{Family, Group, Object, View, group, passes};

pub(super) static GROUPS: &[Group] = &[
    group(Charges(Family::Linear), &["cuMemAlloc"]),
    group(Charges(Family::Pitched), &["cuMemAllocPitch"]),
    group(Charges(Family::Managed), &["cuMemAllocManaged"]),
    // Whatever the pointer came from: linear, pitched, managed, or stream-ordered.
    group(Refunds(Family::Linear), &["cuMemFree"]),
    group(
        Charges(Family::Pool),
        &["cuMemAllocAsync", "cuMemAllocFromPoolAsync"],
    ),
    group(
        Refunds(Family::Pool),
        &["cuMemFreeAsync", "cuMemPoolTrimTo", "cuMemPoolDestroy"],
    ),
    // A pool holds nothing at first, but the sum over pools needs to know them all.
    group(
        Lifetime(Object::Pool),
        &[
            "cuMemGetDefaultMemPool",
            "cuMemGetMemPool",
            "cuMemPoolCreate",
            "cuMemPoolImportFromShareableHandle",
        ],
    ),
    group(Charges(Family::Vmm), &["cuMemCreate"]),
    group(Refunds(Family::Vmm), &["cuMemRelease", "cuMemUnmap"]),
    // Physical memory outlives its handle while it is mapped, and its mapping while a handle is retained.
    group(
        Lifetime(Object::Allocation),
        &[
            "cuMemMap",
            // Tiles of sparse arrays.
            "cuMemMapArrayAsync",
            "cuMemRetainAllocationHandle",
            "cuMemExportToShareableHandle",
        ],
    ),
    // No memory of their own, but what is bound to them stays.
    group(
        Lifetime(Object::Allocation),
        &[
            "cuMulticastBindAddr",
            "cuMulticastBindMem",
            "cuMulticastCreate",
            "cuMulticastUnbind",
        ],
    ),
    // By the first mapping, which tells the size.
    group(Charges(Family::Vmm), &["cuMemImportFromShareableHandle"]),
    group(
        Charges(Family::Array),
        &["cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"],
    ),
    group(
        Refunds(Family::Array),
        &["cuArrayDestroy", "cuMipmappedArrayDestroy"],
    ),
    group(
        Charges(Family::Ipc),
        &["cuIpcOpenMemHandle", "cuMemPoolImportPointer"],
    ),
    group(Refunds(Family::Ipc), &["cuIpcCloseMemHandle"]),
    // Stays charged to the exporter; importers of the same group find its row.
    group(
        Lifetime(Object::Allocation),
        &["cuIpcGetMemHandle", "cuMemPoolExportPointer"],
    ),
    group(Queries(View::FreeMemory), &["cuMemGetInfo"]),
    group(Queries(View::TotalMemory), &["cuDeviceTotalMem"]),
    passes(
        "host memory only",
        &[
            "cuMemAllocHost",
            "cuMemFreeHost",
            "cuMemHostAlloc",
            "cuMemHostGetDevicePointer",
            "cuMemHostGetFlags",
            "cuMemHostRegister",
            "cuMemHostUnregister",
        ],
    ),
    passes(
        "addresses and access rights, no memory behind them",
        &[
            "cuMemAddressReserve",
            "cuMemAddressFree",
            "cuMemSetAccess",
            "cuMemGetAccess",
        ],
    ),
    passes(
        "managed memory is charged in full, wherever it is resident",
        &[
            "cuMemAdvise",
            "cuMemDiscardAndPrefetchBatchAsync",
            "cuMemDiscardBatchAsync",
            "cuMemPrefetchAsync",
            "cuMemPrefetchBatchAsync",
            "cuStreamAttachMemAsync",
        ],
    ),
    passes(
        "names a pool or sets how long it keeps what is freed; its slack is charged as the driver reports it",
        &[
            "cuDeviceGetDefaultMemPool",
            "cuDeviceGetMemPool",
            "cuDeviceSetMemPool",
            "cuMemPoolGetAccess",
            "cuMemPoolGetAttribute",
            "cuMemPoolSetAccess",
            "cuMemPoolSetAttribute",
            "cuMemSetMemPool",
        ],
    ),
    passes(
        "hands out what stays charged to the exporter until it frees it",
        &[
            "cuMemGetHandleForAddressRange",
            "cuMemPoolExportToShareableHandle",
        ],
    ),
    passes(
        "reach into memory that cuMemCreate charged; the objects hold no device memory of their own",
        &[
            "cuLogicalEndpointAddDevice",
            "cuLogicalEndpointBindAddr",
            "cuLogicalEndpointBindMem",
            "cuLogicalEndpointCreate",
            "cuLogicalEndpointDestroy",
            "cuLogicalEndpointExport",
            "cuLogicalEndpointGetLimits",
            "cuLogicalEndpointIdRelease",
            "cuLogicalEndpointIdReserve",
            "cuLogicalEndpointImport",
            "cuLogicalEndpointQuery",
            "cuLogicalEndpointUnbind",
            "cuMulticastAddDevice",
            "cuMulticastGetGranularity",
        ],
    ),
    passes(
        "describes memory that is there",
        &[
            "cuArray3DGetDescriptor",
            "cuArrayGetDescriptor",
            "cuArrayGetMemoryRequirements",
            "cuArrayGetPlane",
            "cuArrayGetSparseProperties",
            "cuMemGetAddressRange",
            "cuMemGetAllocationGranularity",
            "cuMemGetAllocationPropertiesFromHandle",
            "cuMemGetLocationInfo",
            "cuMemRangeGetAttribute",
            "cuMemRangeGetAttributes",
            "cuMipmappedArrayGetLevel",
            "cuMipmappedArrayGetMemoryRequirements",
            "cuMipmappedArrayGetSparseProperties",
            "cuPointerGetAttribute",
            "cuPointerGetAttributes",
            "cuPointerSetAttribute",
        ],
    ),
];
