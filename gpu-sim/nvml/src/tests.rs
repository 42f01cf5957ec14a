//! Tests that call the exported functions as a program does, one at a time, on a simulation of
//! their own: a GPU of 1 GiB, and one of 4 GiB with instances of 1 and 2 GiB.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_t, nvmlProcessInfo_v1_t,
    nvmlReturn_t,
};
use gpu_sim_core::{Config, Member, Simulation};

use crate::identity::{
    nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetHandleByPciBusId_v2,
    nvmlDeviceGetHandleByUUID, nvmlDeviceGetUUID,
};
use crate::memory::{nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2, version};
use crate::mig::{nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGetMigMode};
use crate::processes::{
    nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetComputeRunningProcesses_v3,
};
use crate::session::{nvmlInit_v2, nvmlInitWithFlags, nvmlShutdown};
use crate::system::nvmlSystemGetDriverVersion;

const SUCCESS: nvmlReturn_t = nvmlReturn_t::NVML_SUCCESS;
const MIB: u64 = 1 << 20;
const NOBODY: nvmlDevice_t = nvmlDevice_t(std::ptr::null_mut());

/// An open session, the only one of the process.
struct Session(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Session {
    fn open(faults: &str) -> Self {
        let session = Self::prepare(faults);
        // SAFETY: no arguments.
        assert_eq!(unsafe { nvmlInit_v2() }, SUCCESS);
        session
    }

    fn prepare(faults: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        static TIDY: Once = Once::new();
        // SAFETY: removing a file is all that the function does.
        TIDY.call_once(|| unsafe {
            libc::atexit(remove_file);
        });
        // SAFETY: one test runs at a time, and no other thread reads the environment.
        unsafe {
            std::env::set_var("GPU_SIM", path());
            std::env::set_var("GPU_SIM_DEVICES", "1GiB,4GiB[1GiB,2GiB]");
            std::env::set_var("GPU_SIM_FAULTS", faults);
            std::env::remove_var("GPU_SIM_MODE");
        }
        Self(alone)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: no arguments. An error means that the test closed it itself.
        unsafe { nvmlShutdown() };
    }
}

extern "C" fn remove_file() {
    let _ = std::fs::remove_file(path());
}

fn path() -> String {
    let name = format!("gpu-sim-nvml-test.{}", std::process::id());
    std::env::temp_dir().join(name).to_str().unwrap().to_owned()
}

fn gpu(index: u32) -> nvmlDevice_t {
    let mut device = NOBODY;
    // SAFETY: the place for the answer is ours.
    let found = unsafe { nvmlDeviceGetHandleByIndex_v2(index, &raw mut device) };
    assert_eq!(found, SUCCESS);
    device
}

fn instance(index: u32) -> nvmlDevice_t {
    let mut device = NOBODY;
    // SAFETY: as above.
    let found = unsafe { nvmlDeviceGetMigDeviceHandleByIndex(gpu(1), index, &raw mut device) };
    assert_eq!(found, SUCCESS);
    device
}

fn first(device: nvmlDevice_t) -> nvmlMemory_t {
    let mut memory = nvmlMemory_t {
        total: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: as above.
    let answer = unsafe { nvmlDeviceGetMemoryInfo(device, &raw mut memory) };
    assert_eq!(answer, SUCCESS);
    memory
}

fn uuid(device: nvmlDevice_t) -> String {
    let mut text = [0; 96];
    // SAFETY: the buffer has that many bytes, and is terminated afterwards.
    unsafe {
        assert_eq!(nvmlDeviceGetUUID(device, text.as_mut_ptr(), 96), SUCCESS);
        CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned()
    }
}

/// This process as one that holds memory.
fn member() -> Member {
    let config = Config::from_env().unwrap();
    Member::register(Arc::new(Simulation::open(config).unwrap())).unwrap()
}

#[test]
fn sessions_are_counted() {
    let _session = Session::prepare("");
    let mut count = 0;
    // SAFETY: plain calls; the place for the answer is ours.
    unsafe {
        let closed = nvmlDeviceGetCount_v2(&raw mut count);
        assert_eq!(closed, nvmlReturn_t::NVML_ERROR_UNINITIALIZED);
        assert_eq!((nvmlInit_v2(), nvmlInitWithFlags(0)), (SUCCESS, SUCCESS));
        assert_eq!(nvmlShutdown(), SUCCESS);
        assert_eq!((nvmlDeviceGetCount_v2(&raw mut count), count), (SUCCESS, 2));
        assert_eq!(nvmlShutdown(), SUCCESS);
        assert_eq!(nvmlShutdown(), nvmlReturn_t::NVML_ERROR_UNINITIALIZED);
    }
}

#[test]
fn devices_are_found_by_each_of_their_names() {
    let _session = Session::open("");
    for device in [gpu(0), gpu(1), instance(0), instance(1)] {
        let name = std::ffi::CString::new(uuid(device)).unwrap();
        let mut found = NOBODY;
        // SAFETY: a C string, and a place of ours.
        let answer = unsafe { nvmlDeviceGetHandleByUUID(name.as_ptr(), &raw mut found) };
        assert_eq!((answer, found), (SUCCESS, device));
    }
    assert!(uuid(gpu(1)).starts_with("GPU-") && uuid(instance(0)).starts_with("MIG-"));
    let mut found = NOBODY;
    let bus = |id: &CStr, found: *mut nvmlDevice_t| {
        // SAFETY: a C string, and a place of ours.
        unsafe { nvmlDeviceGetHandleByPciBusId_v2(id.as_ptr(), found) }
    };
    assert_eq!(
        (bus(c"00000000:18:00.0", &raw mut found), found),
        (SUCCESS, gpu(1))
    );
    assert_eq!(
        bus(c"0000:99:00.0", &raw mut found),
        nvmlReturn_t::NVML_ERROR_NOT_FOUND
    );
    // SAFETY: a place of ours.
    let beyond = unsafe { nvmlDeviceGetHandleByIndex_v2(2, &raw mut found) };
    assert_eq!(beyond, nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT);
    let mut memory = nvmlMemory_t {
        total: 0,
        free: 0,
        used: 0,
    };
    for wrong in [
        NOBODY,
        nvmlDevice_t(std::ptr::without_provenance_mut(0x1234)),
    ] {
        // SAFETY: a place of ours; the handle is looked up, not followed.
        let answer = unsafe { nvmlDeviceGetMemoryInfo(wrong, &raw mut memory) };
        assert_eq!(answer, nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT);
    }
}

#[test]
fn memory_adds_up() {
    let _session = Session::open("");
    let member = member();
    member.charge(0, 64 * MIB, 0).unwrap();
    member.charge(2, 32 * MIB, 0).unwrap();
    let whole = first(gpu(0));
    assert_eq!(
        (whole.used, whole.free + whole.used),
        (64 * MIB, 1024 * MIB)
    );
    assert_eq!(
        (first(gpu(1)).used, first(instance(0)).used),
        (32 * MIB, 32 * MIB)
    );
    assert_eq!(first(instance(1)).used, 0);

    let mut second = nvmlMemory_v2_t {
        version: 0,
        total: 0,
        reserved: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: places of ours.
    unsafe {
        let wrong = nvmlDeviceGetMemoryInfo_v2(gpu(0), &raw mut second);
        assert_eq!(wrong, nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        second.version = version::<nvmlMemory_v2_t>(2);
        assert_eq!(nvmlDeviceGetMemoryInfo_v2(gpu(0), &raw mut second), SUCCESS);
    }
    assert_eq!(second.used + second.free + second.reserved, second.total);
    member.refund(0, 64 * MIB, 0);
    member.refund(2, 32 * MIB, 0);
}

#[test]
fn process_lists_are_asked_for_twice() {
    let _session = Session::open("");
    let member = member();
    member.context_created(0).unwrap();
    member.context_created(3).unwrap();
    let ask = |device, count: &mut u32, list: &mut [nvmlProcessInfo_t]| {
        let list = if list.is_empty() {
            std::ptr::null_mut()
        } else {
            list.as_mut_ptr()
        };
        // SAFETY: the list has as many places as `count` says.
        unsafe { nvmlDeviceGetComputeRunningProcesses_v3(device, count, list) }
    };
    let blank = nvmlProcessInfo_t {
        pid: 0,
        usedGpuMemory: 0,
        gpuInstanceId: 0,
        computeInstanceId: 0,
    };
    let (mut count, mut list) = (0, [blank]);
    let first = ask(gpu(0), &mut count, &mut []);
    assert_eq!(
        (first, count),
        (nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE, 1)
    );
    assert_eq!(ask(gpu(0), &mut count, &mut list), SUCCESS);
    assert_eq!(
        (list[0].pid, list[0].gpuInstanceId),
        (std::process::id(), u32::MAX)
    );
    assert_eq!(list[0].usedGpuMemory, 300 * MIB, "the context");
    assert_eq!(ask(gpu(1), &mut count, &mut list), SUCCESS);
    assert_eq!(list[0].gpuInstanceId, 2, "on the second instance");
    count = 0;
    assert_eq!((ask(instance(0), &mut count, &mut []), count), (SUCCESS, 0));

    // The first form of the struct is shorter.
    let (mut count, mut old) = (
        1,
        [nvmlProcessInfo_v1_t {
            pid: 0,
            usedGpuMemory: 0,
        }; 2],
    );
    // SAFETY: one place is offered, and there are two.
    let answer =
        unsafe { nvmlDeviceGetComputeRunningProcesses(gpu(0), &raw mut count, old.as_mut_ptr()) };
    assert_eq!(
        (answer, old[0].pid, old[1].pid),
        (SUCCESS, std::process::id(), 0)
    );
    member.context_destroyed(0);
    member.context_destroyed(3);
}

#[test]
fn instances_make_a_gpu_be_in_mig_mode() {
    let _session = Session::open("");
    let (mut now, mut next) = (9, 9);
    // SAFETY: places of ours.
    unsafe {
        assert_eq!(
            nvmlDeviceGetMigMode(gpu(0), &raw mut now, &raw mut next),
            SUCCESS
        );
        assert_eq!((now, next), (0, 0));
        assert_eq!(
            nvmlDeviceGetMigMode(gpu(1), &raw mut now, &raw mut next),
            SUCCESS
        );
        assert_eq!((now, next), (1, 1));
        let mut third = NOBODY;
        let none = nvmlDeviceGetMigDeviceHandleByIndex(gpu(1), 2, &raw mut third);
        assert_eq!(none, nvmlReturn_t::NVML_ERROR_NOT_FOUND);
    }
}

#[test]
fn small_buffers_are_refused() {
    let _session = Session::open("");
    let mut text: [c_char; 4] = [0; 4];
    // SAFETY: the buffer has that many bytes.
    let answer = unsafe { nvmlSystemGetDriverVersion(text.as_mut_ptr(), 4) };
    assert_eq!(answer, nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE);
}

#[test]
fn what_shall_go_wrong_does() {
    let used = |device| {
        let mut memory = nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: a place of ours.
        unsafe { nvmlDeviceGetMemoryInfo(device, &raw mut memory) }
    };
    for (fault, code) in [
        ("nvml-unknown-error", nvmlReturn_t::NVML_ERROR_UNKNOWN),
        ("nvml-gpu-lost", nvmlReturn_t::NVML_ERROR_GPU_IS_LOST),
        (
            "nvml-missing:nvmlDeviceGetMemoryInfo",
            nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND,
        ),
        ("nvml-missing:nvmlDeviceGetName", SUCCESS),
        ("", SUCCESS),
    ] {
        let _session = Session::open(fault);
        assert_eq!(used(gpu(0)), code, "{fault}");
    }
    let path = format!("{}.fault", path());
    let session = Session::open(&format!("nvml-gpu-lost:1@{path}"));
    assert_eq!((used(gpu(0)), used(gpu(1))), (SUCCESS, SUCCESS));
    let instance = instance(0);
    std::fs::write(&path, "").unwrap();
    let lost = nvmlReturn_t::NVML_ERROR_GPU_IS_LOST;
    assert_eq!(
        (used(gpu(0)), used(gpu(1)), used(instance)),
        (SUCCESS, lost, lost)
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(used(gpu(1)), SUCCESS);
    drop(session);

    let _session = Session::prepare("nvml-no-driver");
    // SAFETY: no arguments.
    let answer = unsafe { nvmlInit_v2() };
    assert_eq!(answer, nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED);
}

#[test]
fn an_old_driver_lacks_what_came_later() {
    let session = Session::prepare("");
    // SAFETY: one test runs at a time, and no other thread reads the environment.
    unsafe { std::env::set_var("GPU_SIM_DRIVER", "11.4") };
    // SAFETY: no arguments.
    assert_eq!(unsafe { nvmlInit_v2() }, SUCCESS);
    // SAFETY: as for setting it.
    unsafe { std::env::remove_var("GPU_SIM_DRIVER") };
    let mut memory = nvmlMemory_v2_t {
        version: version::<nvmlMemory_v2_t>(2),
        total: 0,
        reserved: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: a place of ours.
    let second = unsafe { nvmlDeviceGetMemoryInfo_v2(gpu(0), &raw mut memory) };
    assert_eq!(second, nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND);
    assert_eq!(first(gpu(0)).total, 1024 * MIB, "the first form is there");
    drop(session);
}
