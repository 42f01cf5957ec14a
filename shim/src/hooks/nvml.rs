//! What NVML tells of a device's memory, of its processes and of how busy it is.

use core::ffi::{c_uint, c_ulonglong};

use cuda_headers::nvml::{
    fns, nvmlAccountingStats_t, nvmlAccountingStats_v2_t, nvmlDevice_t, nvmlDeviceAttributes_t,
    nvmlEncoderSessionInfo_t, nvmlFBCSessionInfo_t, nvmlMemory_t, nvmlMemory_v2_t,
    nvmlProcessDetailList_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t,
    nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_t, nvmlReturn_t,
    nvmlUtilization_t,
};

use crate::hook::hooks;
use crate::nvml::{memory as shown, processes, utilization as busy};

hooks! { NVML as fns;
    fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, memory: *mut nvmlMemory_t) -> nvmlReturn_t =
        |call| shown::info(device, memory, &call);

    fn nvmlDeviceGetMemoryInfo_v2(
        device: nvmlDevice_t,
        memory: *mut nvmlMemory_v2_t,
    ) -> nvmlReturn_t = |call| shown::info(device, memory, &call);

    fn nvmlDeviceGetAttributes(
        device: nvmlDevice_t,
        attributes: *mut nvmlDeviceAttributes_t,
    ) -> nvmlReturn_t = |call| shown::attributes(device, attributes, &call);

    fn nvmlDeviceGetAttributes_v2(
        device: nvmlDevice_t,
        attributes: *mut nvmlDeviceAttributes_t,
    ) -> nvmlReturn_t = |call| shown::attributes(device, attributes, &call);

    fn nvmlDeviceGetComputeRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) -> nvmlReturn_t = |call| processes::computing(device, infoCount, infos, &call);

    fn nvmlDeviceGetComputeRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) -> nvmlReturn_t = |call| processes::computing(device, infoCount, infos, &call);

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) -> nvmlReturn_t = |call| processes::computing(device, infoCount, infos, &call);

    fn nvmlDeviceGetGraphicsRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, infoCount, infos, &call);

    fn nvmlDeviceGetRunningProcessDetailList(
        device: nvmlDevice_t,
        plist: *mut nvmlProcessDetailList_t,
    ) -> nvmlReturn_t = |call| processes::details(device, plist, &call);

    fn nvmlDeviceGetEncoderSessions(
        device: nvmlDevice_t,
        sessionCount: *mut c_uint,
        sessionInfos: *mut nvmlEncoderSessionInfo_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, sessionCount, sessionInfos, &call);

    fn nvmlDeviceGetFBCSessions(
        device: nvmlDevice_t,
        sessionCount: *mut c_uint,
        sessionInfo: *mut nvmlFBCSessionInfo_t,
    ) -> nvmlReturn_t = |call| processes::kept(device, sessionCount, sessionInfo, &call);

    fn nvmlDeviceGetAccountingPids(
        device: nvmlDevice_t,
        count: *mut c_uint,
        pids: *mut c_uint,
    ) -> nvmlReturn_t = |call| processes::accounted(device, count, pids, &call);

    fn nvmlDeviceGetAccountingStats(
        device: nvmlDevice_t,
        pid: c_uint,
        stats: *mut nvmlAccountingStats_t,
    ) -> nvmlReturn_t = |call| processes::statistics(device, pid, stats, &call);

    fn nvmlDeviceGetAccountingStats_v2(
        device: nvmlDevice_t,
        stats: *mut nvmlAccountingStats_v2_t,
    ) -> nvmlReturn_t = |call| processes::statistics_v2(device, stats, &call);

    fn nvmlDeviceGetUtilizationRates(
        device: nvmlDevice_t,
        utilization: *mut nvmlUtilization_t,
    ) -> nvmlReturn_t = |call| busy::rates(device, utilization, &call);

    fn nvmlDeviceGetProcessUtilization(
        device: nvmlDevice_t,
        utilization: *mut nvmlProcessUtilizationSample_t,
        processSamplesCount: *mut c_uint,
        lastSeenTimeStamp: c_ulonglong,
    ) -> nvmlReturn_t = |call| busy::processes(device, utilization, processSamplesCount, &call);

    fn nvmlDeviceGetProcessesUtilizationInfo(
        device: nvmlDevice_t,
        procesesUtilInfo: *mut nvmlProcessesUtilizationInfo_t,
    ) -> nvmlReturn_t = |call| busy::processes_info(device, procesesUtilInfo, &call);
}
