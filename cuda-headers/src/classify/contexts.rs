//! The driver as such: look-ups, devices, contexts, and code.

use super::Class::{Charges, Lifetime, LooksUp, Refunds, Waits};
use super::{Family, Group, Object, group, passes};

pub(super) static GROUPS: &[Group] = &[
    group(LooksUp, &["cuGetProcAddress"]),
    // Where a wrong configuration is refused and the process joins its group.
    group(Lifetime(Object::Process), &["cuInit"]),
    group(
        Charges(Family::Context),
        &[
            "cuCtxCreate",
            // The heap, the stack and the printf buffer of device code are taken when their limits are set.
            "cuCtxSetLimit",
            "cuDevicePrimaryCtxRetain",
            "cuGLCtxCreate",
            // Retains the primary context.
            "cuGreenCtxCreate",
            "cuVDPAUCtxCreate",
        ],
    ),
    // How many detaches a context outlives, and by which other handle the primary one is met.
    group(
        Lifetime(Object::Context),
        &["cuCtxAttach", "cuCtxFromGreenCtx"],
    ),
    // What a context held goes with it: linear, array and managed memory, modules, markers.
    group(
        Refunds(Family::Context),
        &[
            "cuCtxDestroy",
            "cuCtxDetach",
            "cuDevicePrimaryCtxRelease",
            "cuDevicePrimaryCtxReset",
            "cuGreenCtxDestroy",
        ],
    ),
    passes(
        "code and module variables are within the constant of the context; a daemon measures them",
        &[
            "cuFuncLoad",
            "cuLibraryLoadData",
            "cuLibraryLoadFromFile",
            "cuModuleLoad",
            "cuModuleLoadData",
            "cuModuleLoadDataEx",
            "cuModuleLoadFatBinary",
        ],
    ),
    // Addresses of functions are used again after an unload: learned costs go too.
    group(
        Lifetime(Object::Functions),
        &["cuLibraryUnload", "cuModuleUnload"],
    ),
    passes("private table, never wrapped", &["cuGetExportTable"]),
    passes(
        "tells of the driver or writes its log",
        &[
            "cuDriverGetVersion",
            "cuGetErrorName",
            "cuGetErrorString",
            "cuLogsCurrent",
            "cuLogsDumpToFile",
            "cuLogsDumpToMemory",
            "cuLogsRegisterCallback",
            "cuLogsUnregisterCallback",
        ],
    ),
    passes(
        "tells of a device, nothing of how full it is",
        &[
            "cuDeviceCanAccessPeer",
            "cuDeviceComputeCapability",
            "cuDeviceGet",
            "cuDeviceGetAttribute",
            "cuDeviceGetByPCIBusId",
            "cuDeviceGetCliqueCount",
            "cuDeviceGetCliqueInfo",
            "cuDeviceGetCount",
            "cuDeviceGetExecAffinitySupport",
            "cuDeviceGetFabricClusterUuid",
            "cuDeviceGetHostAtomicCapabilities",
            "cuDeviceGetLuid",
            "cuDeviceGetName",
            "cuDeviceGetNvSciSyncAttributes",
            "cuDeviceGetP2PAtomicCapabilities",
            "cuDeviceGetP2PAttribute",
            "cuDeviceGetPCIBusId",
            "cuDeviceGetProperties",
            "cuDeviceGetTexture1DLinearMaxWidth",
            "cuDeviceGetUuid",
        ],
    ),
    passes(
        "calls back on events of the device",
        &[
            "cuDeviceRegisterAsyncNotification",
            "cuDeviceUnregisterAsyncNotification",
        ],
    ),
    passes(
        "selects or reads a context; the first reference was charged",
        &[
            "cuCtxGetApiVersion",
            "cuCtxGetCurrent",
            "cuCtxGetDevResource",
            "cuCtxGetDevice",
            "cuCtxGetExecAffinity",
            "cuCtxGetFlags",
            "cuCtxGetId",
            "cuCtxGetLimit",
            "cuCtxGetStreamPriorityRange",
            "cuDevicePrimaryCtxGetState",
        ],
    ),
    passes(
        "settings of a context, without memory of their own",
        &[
            "cuCtxDisablePeerAccess",
            "cuCtxEnablePeerAccess",
            "cuCtxGetCacheConfig",
            "cuCtxGetSharedMemConfig",
            "cuCtxResetPersistingL2Cache",
            "cuCtxSetCacheConfig",
            "cuCtxSetFlags",
            "cuCtxSetSharedMemConfig",
            "cuDevicePrimaryCtxSetFlags",
        ],
    ),
    group(
        Lifetime(Object::Current),
        &["cuCtxPopCurrent", "cuCtxPushCurrent", "cuCtxSetCurrent"],
    ),
    group(Waits, &["cuCtxSynchronize"]),
    passes(
        "waits on the host for writes of other devices",
        &["cuFlushGPUDirectRDMAWrites"],
    ),
    passes(
        "describes or divides multiprocessors; no memory, and launches there are charged as any",
        &[
            "cuDevResourceGenerateDesc",
            "cuDevSmResourceSplit",
            "cuDevSmResourceSplitByCount",
            "cuDeviceGetDevResource",
            "cuGreenCtxGetDevResource",
            "cuGreenCtxGetId",
            "cuGreenCtxStreamCreate",
        ],
    ),
    // With lazy loading the code is loaded here, or at the first launch.
    passes(
        "finds a function or variable of code that is within the constant of the context",
        &[
            "cuKernelGetFunction",
            "cuLibraryEnumerateKernels",
            "cuLibraryGetGlobal",
            "cuLibraryGetKernel",
            "cuLibraryGetKernelCount",
            "cuLibraryGetManaged",
            "cuLibraryGetModule",
            "cuLibraryGetUnifiedFunction",
            "cuModuleEnumerateFunctions",
            "cuModuleGetFunction",
            "cuModuleGetFunctionCount",
            "cuModuleGetGlobal",
            "cuModuleGetLoadingMode",
            "cuModuleGetSurfRef",
            "cuModuleGetTexRef",
        ],
    ),
    passes(
        "reads or sets attributes of a function",
        &[
            "cuFuncGetAttribute",
            "cuFuncGetModule",
            "cuFuncGetName",
            "cuFuncGetParamCount",
            "cuFuncGetParamInfo",
            "cuFuncIsLoaded",
            "cuFuncSetAttribute",
            "cuFuncSetCacheConfig",
            "cuFuncSetSharedMemConfig",
            "cuKernelGetAttribute",
            "cuKernelGetLibrary",
            "cuKernelGetName",
            "cuKernelGetParamCount",
            "cuKernelGetParamInfo",
            "cuKernelSetAttribute",
            "cuKernelSetCacheConfig",
        ],
    ),
    passes(
        "compiles on the host",
        &[
            "cuLinkAddData",
            "cuLinkAddFile",
            "cuLinkComplete",
            "cuLinkCreate",
            "cuLinkDestroy",
        ],
    ),
    passes(
        "computes on the host",
        &[
            "cuOccupancyAvailableDynamicSMemPerBlock",
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
            "cuOccupancyMaxActiveClusters",
            "cuOccupancyMaxPotentialBlockSize",
            "cuOccupancyMaxPotentialBlockSizeWithFlags",
            "cuOccupancyMaxPotentialClusterSize",
        ],
    ),
    passes(
        "switches a profiler on or off",
        &["cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"],
    ),
    passes(
        "writes files about a crash",
        &[
            "cuCoredumpDeregisterCompleteCallback",
            "cuCoredumpDeregisterStartCallback",
            "cuCoredumpGetAttribute",
            "cuCoredumpGetAttributeGlobal",
            "cuCoredumpRegisterCompleteCallback",
            "cuCoredumpRegisterStartCallback",
            "cuCoredumpSetAttribute",
            "cuCoredumpSetAttributeGlobal",
        ],
    ),
    // The memory goes to the host and comes back; the process is named by pid and may be another one.
    passes(
        "a checkpointed process stays charged, so its restore fits",
        &[
            "cuCheckpointOperationComplete",
            "cuCheckpointProcessCheckpoint",
            "cuCheckpointProcessGetRestoreThreadId",
            "cuCheckpointProcessGetState",
            "cuCheckpointProcessLock",
            "cuCheckpointProcessRestore",
            "cuCheckpointProcessUnlock",
        ],
    ),
];
