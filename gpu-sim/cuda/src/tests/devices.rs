use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use cuda_headers::driver::{
    CUdevice_attribute as Attribute, CUdriverProcAddressQueryResult as Status, CUresult, CUuuid,
};

use super::{Gpu, INVALID, cu, ok};

#[test]
fn devices_are_told_apart() {
    let _gpu = Gpu::new();
    let mut count = 0;
    ok!(cuDeviceGetCount(&raw mut count));
    assert_eq!(count, 2);
    let mut device = 0;
    assert_eq!(
        cu!(cuDeviceGet(&raw mut device, 2)),
        CUresult::CUDA_ERROR_INVALID_DEVICE
    );
    assert_eq!(
        cu!(cuDeviceGet(&raw mut device, -1)),
        CUresult::CUDA_ERROR_INVALID_DEVICE
    );
    let mut uuids = [CUuuid { bytes: [0; 16] }; 2];
    ok!(cuDeviceGetUuid_v2(&raw mut uuids[0], 0));
    ok!(cuDeviceGetUuid_v2(&raw mut uuids[1], 1));
    assert_ne!(uuids[0].bytes, uuids[1].bytes);
    let mut bytes = 0;
    ok!(cuDeviceTotalMem_v2(&raw mut bytes, 1));
    assert_eq!(bytes, 512 << 20);
}

#[test]
fn pci_ids_lead_back_to_their_device() {
    let _gpu = Gpu::new();
    for device in 0..2 {
        let (mut text, mut found) = ([0; 13], -1);
        ok!(cuDeviceGetPCIBusId(text.as_mut_ptr(), 13, device));
        ok!(cuDeviceGetByPCIBusId(&raw mut found, text.as_ptr()));
        assert_eq!(found, device);
        assert_eq!(
            cu!(cuDeviceGetPCIBusId(text.as_mut_ptr(), 12, device)),
            INVALID
        );
    }
    let mut found = 0;
    let nowhere = cu!(cuDeviceGetByPCIBusId(
        &raw mut found,
        c"00ff:01:00.0".as_ptr()
    ));
    assert_eq!(nowhere, CUresult::CUDA_ERROR_INVALID_DEVICE);
}

#[test]
fn names_fit_their_buffer() {
    let _gpu = Gpu::new();
    let mut text = [1; 8];
    ok!(cuDeviceGetName(text.as_mut_ptr(), 8, 0));
    // SAFETY: terminated inside the buffer.
    assert_eq!(unsafe { CStr::from_ptr(text.as_ptr()) }.count_bytes(), 7);
    assert_eq!(cu!(cuDeviceGetName(text.as_mut_ptr(), 0, 0)), INVALID);
}

#[test]
fn attributes_are_known_or_refused() {
    let _gpu = Gpu::new();
    let value = |attribute: Attribute| {
        let mut value: c_int = -7;
        ok!(cuDeviceGetAttribute(&raw mut value, attribute, 0));
        value
    };
    assert_eq!(value(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(value(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED), 0);
    for number in 1..Attribute::CU_DEVICE_ATTRIBUTE_MAX.0 {
        assert_ne!(value(Attribute(number)), -7, "{number}");
    }
    let mut any = 0;
    for unknown in [
        Attribute(0),
        Attribute::CU_DEVICE_ATTRIBUTE_MAX,
        Attribute(9999),
    ] {
        assert_eq!(cu!(cuDeviceGetAttribute(&raw mut any, unknown, 0)), INVALID);
    }
}

#[test]
fn every_address_is_the_exported_function() {
    let _gpu = Gpu::new();
    let ask = |name: &CStr, version| {
        let (mut found, mut status) = (ptr::null_mut::<c_void>(), Status(99));
        ok!(cuGetProcAddress_v2(
            name.as_ptr(),
            &raw mut found,
            version,
            0,
            &raw mut status
        ));
        (found.addr(), status)
    };
    let exported = |name| crate::symbols::address(name).unwrap();
    assert_eq!(ask(c"cuMemAlloc", 3020).0, exported("cuMemAlloc_v2"));
    assert_eq!(ask(c"cuMemAlloc", 3000).0, exported("cuMemAlloc"));
    assert_eq!(
        ask(c"", 0),
        (0, Status::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
    );
    let early = ask(c"cuMemAllocAsync", 11010);
    assert_eq!(
        early,
        (0, Status::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
    );
    let mut found = ptr::null_mut();
    let old = cu!(cuGetProcAddress(
        c"cuNone".as_ptr(),
        &raw mut found,
        12000,
        0
    ));
    assert_eq!(old, CUresult::CUDA_ERROR_NOT_FOUND);
    let flags = cu!(cuGetProcAddress(
        c"cuInit".as_ptr(),
        &raw mut found,
        12000,
        8
    ));
    assert_eq!(flags, INVALID);
}

#[test]
fn private_tables_are_refused() {
    let id = CUuuid { bytes: [1; 16] };
    let mut table = ptr::dangling();
    assert_eq!(
        cu!(cuGetExportTable(&raw mut table, &raw const id)),
        INVALID
    );
    assert!(table.is_null());
}

#[test]
fn what_is_not_implemented_says_so() {
    let _gpu = Gpu::new();
    let before = crate::symbols::calls("cuDeviceGetNvSciSyncAttributes").unwrap();
    let call = cu!(cuDeviceGetNvSciSyncAttributes(ptr::null_mut(), 0, 0));
    assert_eq!(call, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert_eq!(
        crate::symbols::calls("cuDeviceGetNvSciSyncAttributes"),
        Some(before + 1)
    );
}
