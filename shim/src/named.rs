//! Where the devices that the variables name and those that the program sees are not the same.

use core::ffi::c_int;

use cuda_headers::driver::{CUdevice, CUresult, CUuuid};
use quota_abi::policy::Policy;
use quota_abi::settings::{Device as Named, Settings, Uncovered};
use quota_abi::spelling::UuidText;

use crate::device::Devices;
use crate::driver::call;
use crate::report;

/// Says that a list of values leaves a device out: to leave it unlimited would be to guess.
pub(crate) fn left_out(
    uncovered: &Uncovered,
    number: c_int,
    handle: CUdevice,
    uuid: &[u8; 16],
) -> CUresult {
    report::stop(format_args!(
        "{} leaves out device {number} ({}), which this program sees; {}",
        uncovered.variable(),
        UuidText::new(uuid, is_instance(handle, uuid)),
        uncovered.mend(usize::try_from(number).unwrap_or(0))
    ));
    CUresult::CUDA_ERROR_NOT_PERMITTED
}

/// Says that a container may not use a device that the program sees.
pub(crate) fn not_allowed(
    policy: &Policy,
    number: c_int,
    handle: CUdevice,
    uuid: &[u8; 16],
) -> CUresult {
    report::stop(format_args!(
        "container {} has no quota on device {number} ({}), which this program sees; give it one, or hide the device with \
         CUDA_VISIBLE_DEVICES",
        policy.name(),
        UuidText::new(uuid, is_instance(handle, uuid)),
    ));
    CUresult::CUDA_ERROR_NOT_PERMITTED
}

/// Whether a device is a part of a GPU: the first version of the question tells the GPU's own UUID.
fn is_instance(handle: CUdevice, uuid: &[u8; 16]) -> bool {
    let mut whole = CUuuid { bytes: [0; 16] };
    // SAFETY: a live out-pointer.
    let answer = unsafe { call!(cuDeviceGetUuid(&raw mut whole, handle)) };
    let whole = whole
        .bytes
        .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()));
    answer == CUresult::CUDA_SUCCESS && whole != *uuid
}

/// Says which devices are named that this program does not see. No reason to stop: one list may serve a whole host, of
/// which each program sees a part.
pub(crate) fn not_seen(settings: &Settings, devices: &Devices) {
    for named in settings.named() {
        let seen = devices.iter().any(|device| match named {
            Named::Every => true,
            Named::Number(number) => usize::try_from(number) == Ok(device.number),
            Named::Uuid(uuid) => device.uuid() == Some(uuid),
        });
        if !seen {
            report::info(format_args!(
                "{named} has a quota, and this program does not see it"
            ));
        }
    }
}
