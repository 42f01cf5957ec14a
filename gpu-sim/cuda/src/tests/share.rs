//! Memory of one process in another: this test program starts itself again as the importer.

use std::ffi::c_int;
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_headers::driver::{
    CUdeviceptr, CUipcMemHandle, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemLocationType, CUmemPoolProps,
    CUmemPoolPtrExportData, CUmemoryPool, CUresult, CUstream,
};

use super::{Gpu, INVALID, MIB, cu, ok};

const POSIX: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
/// An importer takes milliseconds.
const WATCHDOG: Duration = Duration::from_secs(60);
const NULL: CUstream = CUstream(ptr::null_mut());

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes<const N: usize>(name: &str) -> [u8; N] {
    let text = std::env::var(name).unwrap();
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// Runs the importer that is the ignored test of this name, with what it needs in its environment.
fn importer(name: &str, environment: &[(&str, String)]) {
    let test = format!("tests::share::{name}");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--ignored", "--test-threads=1"])
        .envs(environment.iter().map(|(key, value)| (*key, value)))
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() > WATCHDOG => {
                child.kill().unwrap();
                panic!("{name} does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "{name}: {status}");
}

/// A descriptor that the importer inherits.
fn inherited(file: c_int) -> String {
    // SAFETY: plain system call on a descriptor of ours.
    assert_eq!(unsafe { libc::fcntl(file, libc::F_SETFD, 0) }, 0);
    file.to_string()
}

fn word(address: CUdeviceptr) -> u32 {
    let mut word = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
    word
}

fn prop() -> CUmemAllocationProp {
    // SAFETY: numbers and a pointer that only Windows uses.
    let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = POSIX;
    prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    prop
}

/// Memory behind a handle, mapped and accessible.
fn mapped(handle: u64) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAddressReserve(&raw mut address, 2 * MIB, 0, 0, 0));
    ok!(cuMemMap(address, 2 * MIB, 0, handle, 0));
    let description = CUmemAccessDesc {
        location: prop().location,
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    ok!(cuMemSetAccess(address, 2 * MIB, &raw const description, 1));
    address
}

#[test]
fn linear_memory_by_handle() {
    let _gpu = Gpu::new();
    let (mut other, mut address) = (0, 0);
    ok!(cuMemAlloc_v2(&raw mut other, 512));
    ok!(cuMemAlloc_v2(&raw mut address, 512));
    ok!(cuMemsetD32_v2(address, 11, 1));
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    ok!(cuIpcGetMemHandle(&raw mut handle, address));
    let mut own = 0;
    let here = cu!(cuIpcOpenMemHandle_v2(&raw mut own, handle, 1));
    assert_eq!(
        here,
        CUresult::CUDA_ERROR_INVALID_CONTEXT,
        "not in the exporter itself"
    );
    let text = hex(&handle.reserved.map(i8::cast_unsigned));
    importer("imports_linear", &[("HANDLE", text)]);
    assert_eq!((word(address), word(other)), (12, 0));
    ok!(cuMemFree_v2(address));
    ok!(cuMemFree_v2(other));
}

#[test]
#[ignore = "started by linear_memory_by_handle"]
fn imports_linear() {
    let gpu = Gpu::new();
    let handle = CUipcMemHandle {
        reserved: bytes::<64>("HANDLE").map(u8::cast_signed),
    };
    let (mut address, mut again) = (0, 0);
    ok!(cuIpcOpenMemHandle_v2(&raw mut address, handle, 1));
    ok!(cuIpcOpenMemHandle_v2(&raw mut again, handle, 1));
    assert_eq!(address, again);
    assert_eq!(
        (word(address), gpu.usage(0)),
        (11, (0, 0)),
        "it counts for the exporter alone"
    );
    ok!(cuMemsetD32_v2(address, 12, 1));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID);
    ok!(cuIpcCloseMemHandle(address));
    ok!(cuIpcCloseMemHandle(address));
    assert_eq!(cu!(cuIpcCloseMemHandle(address)), INVALID);
    let nonsense = CUipcMemHandle { reserved: [1; 64] };
    let refused = cu!(cuIpcOpenMemHandle_v2(&raw mut address, nonsense, 1));
    assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn virtual_memory_by_descriptor() {
    let gpu = Gpu::new();
    let (mut handle, mut file) = (0, -1);
    ok!(cuMemCreate(&raw mut handle, 2 * MIB, &prop(), 0));
    let address = mapped(handle);
    ok!(cuMemsetD32_v2(address, 21, 1));
    ok!(cuMemExportToShareableHandle(
        (&raw mut file).cast(),
        handle,
        POSIX,
        0
    ));
    importer("imports_virtual", &[("FILE", inherited(file))]);
    assert_eq!(word(address), 22);
    ok!(cuMemUnmap(address, 2 * MIB));
    ok!(cuMemAddressFree(address, 2 * MIB));
    ok!(cuMemRelease(handle));
    assert_eq!(gpu.usage(0).0, 2 << 20, "until the descriptor is closed");
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(file) };
    assert_eq!(gpu.usage(0).0, 0);
}

#[test]
#[ignore = "started by virtual_memory_by_descriptor"]
fn imports_virtual() {
    let gpu = Gpu::new();
    let file: usize = std::env::var("FILE").unwrap().parse().unwrap();
    let mut handle = 0;
    let number = ptr::without_provenance_mut(file);
    ok!(cuMemImportFromShareableHandle(
        &raw mut handle,
        number,
        POSIX
    ));
    let address = mapped(handle);
    // The exporter is of another simulation: nobody of this one is charged.
    assert_eq!((word(address), gpu.usage(0)), (21, (2 << 20, 2 << 20)));
    ok!(cuMemsetD32_v2(address, 22, 1));
    ok!(cuMemRelease(handle));
}

#[test]
fn pools_by_descriptor() {
    let _gpu = Gpu::new();
    // SAFETY: numbers and a pointer that only Windows uses.
    let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
    props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = POSIX;
    props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut pool = CUmemoryPool(ptr::null_mut());
    ok!(cuMemPoolCreate(&raw mut pool, &raw const props));
    let (mut address, mut file) = (0, -1);
    ok!(cuMemAllocFromPoolAsync(&raw mut address, 4096, pool, NULL));
    ok!(cuMemsetD32_v2(address, 31, 1));
    ok!(cuMemPoolExportToShareableHandle(
        (&raw mut file).cast(),
        pool,
        POSIX,
        0
    ));
    let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
    ok!(cuMemPoolExportPointer(&raw mut data, address));
    assert_eq!(
        cu!(cuMemPoolExportPointer(&raw mut data, address + 8)),
        INVALID
    );
    importer(
        "imports_pool",
        &[("FILE", inherited(file)), ("DATA", hex(&data.reserved))],
    );
    assert_eq!(word(address), 32);
    ok!(cuMemFree_v2(address));
    ok!(cuMemPoolDestroy(pool));
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(file) };
}

#[test]
#[ignore = "started by pools_by_descriptor"]
fn imports_pool() {
    let gpu = Gpu::new();
    let file: usize = std::env::var("FILE").unwrap().parse().unwrap();
    let mut data = CUmemPoolPtrExportData {
        reserved: bytes("DATA"),
    };
    let mut pool = CUmemoryPool(ptr::null_mut());
    let number = ptr::without_provenance_mut(file);
    ok!(cuMemPoolImportFromShareableHandle(
        &raw mut pool,
        number,
        POSIX,
        0
    ));
    let mut address = 0;
    assert_eq!(
        cu!(cuMemAllocFromPoolAsync(&raw mut address, 64, pool, NULL)),
        INVALID
    );
    ok!(cuMemPoolImportPointer(
        &raw mut address,
        pool,
        &raw mut data
    ));
    assert_eq!((word(address), gpu.usage(0)), (31, (0, 0)));
    ok!(cuMemsetD32_v2(address, 32, 1));
    ok!(cuMemFreeAsync(address, NULL));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID);
    ok!(cuMemPoolDestroy(pool));
}
