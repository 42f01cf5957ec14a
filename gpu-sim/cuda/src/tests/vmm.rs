use cuda_headers::driver::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocationType,
};

use super::{Gpu, INVALID, MIB, OUT_OF_MEMORY, cu, ok};

fn prop() -> CUmemAllocationProp {
    // SAFETY: numbers and a pointer that only Windows uses.
    let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    prop
}

fn create(size: usize) -> CUmemGenericAllocationHandle {
    let mut handle = 0;
    ok!(cuMemCreate(&raw mut handle, size, &prop(), 0));
    handle
}

fn reserve(size: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAddressReserve(&raw mut address, size, 0, 0, 0));
    address
}

fn allow(address: CUdeviceptr, size: usize) {
    let description = CUmemAccessDesc {
        location: prop().location,
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    ok!(cuMemSetAccess(address, size, &raw const description, 1));
}

#[test]
fn memory_stays_while_a_handle_or_a_mapping_is_left() {
    let gpu = Gpu::new();
    let handle = create(4 * MIB);
    assert_eq!(gpu.usage(0), (4 << 20, 4 << 20));
    let address = reserve(8 * MIB);
    ok!(cuMemMap(address, 4 * MIB, 0, handle, 0));
    ok!(cuMemRelease(handle));
    assert_eq!(cu!(cuMemRelease(handle)), INVALID);
    assert_eq!(gpu.usage(0).0, 4 << 20, "mapped");
    let mut again = 0;
    let inside = std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap() + 77);
    ok!(cuMemRetainAllocationHandle(&raw mut again, inside));
    ok!(cuMemUnmap(address, 4 * MIB));
    assert_eq!(gpu.usage(0).0, 4 << 20, "a handle is left");
    ok!(cuMemRelease(again));
    assert_eq!(gpu.usage(0), (0, 0));
    ok!(cuMemAddressFree(address, 8 * MIB));
}

#[test]
fn one_memory_at_two_addresses() {
    let _gpu = Gpu::new();
    let handle = create(2 * MIB);
    let address = reserve(4 * MIB);
    let second = address + 2 * 1024 * 1024;
    ok!(cuMemMap(address, 2 * MIB, 0, handle, 0));
    ok!(cuMemMap(second, 2 * MIB, 0, handle, 0));
    allow(address, 4 * MIB);
    ok!(cuMemsetD32_v2(address, 0x01020304, 1));
    let mut copy = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut copy).cast(), second, 4));
    assert_eq!(copy, 0x01020304);
    ok!(cuMemUnmap(address, 4 * MIB));
    ok!(cuMemRelease(handle));
    ok!(cuMemAddressFree(address, 4 * MIB));
}

#[test]
fn what_the_documentation_forbids_is_refused() {
    let _gpu = Gpu::new();
    let mut handle = 0;
    let wanted = prop();
    assert_eq!(
        cu!(cuMemCreate(&raw mut handle, MIB, &raw const wanted, 0)),
        INVALID,
        "size"
    );
    assert_eq!(
        cu!(cuMemCreate(&raw mut handle, 2 * MIB, &raw const wanted, 1)),
        INVALID,
        "flags"
    );
    let too_much = cu!(cuMemCreate(
        &raw mut handle,
        4096 * MIB,
        &raw const wanted,
        0
    ));
    assert_eq!(too_much, OUT_OF_MEMORY);

    let handle = create(2 * MIB);
    let address = reserve(4 * MIB);
    assert_eq!(
        cu!(cuMemMap(address + 4096, 2 * MIB, 0, handle, 0)),
        INVALID,
        "alignment"
    );
    assert_eq!(
        cu!(cuMemMap(address, 4 * MIB, 0, handle, 0)),
        INVALID,
        "more than there is"
    );
    assert_eq!(
        cu!(cuMemMap(address, 2 * MIB, 4096, handle, 0)),
        INVALID,
        "offset"
    );
    assert_eq!(
        cu!(cuMemMap(0x10000, 2 * MIB, 0, handle, 0)),
        INVALID,
        "not reserved"
    );
    ok!(cuMemMap(address, 2 * MIB, 0, handle, 0));
    assert_eq!(
        cu!(cuMemMap(address, 2 * MIB, 0, handle, 0)),
        INVALID,
        "mapped already"
    );
    assert_ne!(
        cu!(cuMemsetD8_v2(address, 1, 1)),
        super::SUCCESS,
        "nobody may touch it yet"
    );
    assert_eq!(cu!(cuMemUnmap(address, MIB)), INVALID, "half a mapping");
    assert_eq!(
        cu!(cuMemAddressFree(address, 4 * MIB)),
        INVALID,
        "still mapped"
    );
    ok!(cuMemUnmap(address, 2 * MIB));
    assert_eq!(
        cu!(cuMemAddressFree(address, 2 * MIB)),
        INVALID,
        "half a reservation"
    );
    ok!(cuMemAddressFree(address, 4 * MIB));
    ok!(cuMemRelease(handle));
}

#[test]
fn host_memory_counts_on_no_device() {
    let gpu = Gpu::new();
    let mut host = prop();
    host.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA;
    let mut handle = 0;
    ok!(cuMemCreate(&raw mut handle, 64 * MIB, &raw const host, 0));
    assert_eq!(gpu.usage(0), (0, 0));
    ok!(cuMemRelease(handle));
}

#[test]
fn memory_is_exported_only_if_it_was_made_for_it() {
    let _gpu = Gpu::new();
    let posix = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let (plain, mut file) = (create(2 * MIB), -1_i32);
    assert_eq!(
        cu!(cuMemExportToShareableHandle(
            (&raw mut file).cast(),
            plain,
            posix,
            0
        )),
        INVALID
    );
    let mut wanted = prop();
    wanted.requestedHandleTypes = posix;
    let mut shared = 0;
    ok!(cuMemCreate(&raw mut shared, 2 * MIB, &raw const wanted, 0));
    ok!(cuMemExportToShareableHandle(
        (&raw mut file).cast(),
        shared,
        posix,
        0
    ));
    assert!(file >= 0);
    let mut imported = 0;
    let number = std::ptr::without_provenance_mut(usize::try_from(file).unwrap());
    ok!(cuMemImportFromShareableHandle(
        &raw mut imported,
        number,
        posix
    ));
    let nothing = std::ptr::null_mut();
    assert_eq!(
        cu!(cuMemImportFromShareableHandle(
            &raw mut imported,
            nothing,
            posix
        )),
        INVALID
    );
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
    for handle in [plain, shared, imported] {
        ok!(cuMemRelease(handle));
    }
}

#[test]
fn mappings_outlive_contexts() {
    let first = Gpu::new();
    let handle = create(2 * MIB);
    drop(first);
    let gpu = Gpu::new();
    assert_eq!(gpu.usage(0).0, 2 << 20);
    ok!(cuMemRelease(handle));
    assert_eq!(gpu.usage(0).0, 0);
}
