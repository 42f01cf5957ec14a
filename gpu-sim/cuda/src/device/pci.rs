//! PCI bus ids, both ways.

use std::ffi::{CStr, c_char, c_int};

use cuda_headers::driver::{CUdevice, CUresult};
use gpu_sim_core::Pci;

use crate::device;
use crate::entry::{entry, out};

fn text(pci: Pci) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device)
}

/// `[domain]:[bus]:[device].[function]`, `[domain]:[bus]:[device]` or `[bus]:[device].[function]`,
/// all hexadecimal.
fn parse(text: &str) -> Option<Pci> {
    let hex = |part: &str| u32::from_str_radix(part, 16).ok();
    let (place, function) = match text.split_once('.') {
        Some((place, function)) => (place, Some(hex(function)?)),
        None => (text, None),
    };
    let parts: Vec<u32> = place.split(':').map(hex).collect::<Option<_>>()?;
    match (parts.as_slice(), function) {
        ([domain, bus, device], None | Some(0)) => Some(Pci {
            domain: *domain,
            bus: *bus,
            device: *device,
        }),
        ([bus, device], Some(0)) => Some(Pci {
            domain: 0,
            bus: *bus,
            device: *device,
        }),
        _ => None,
    }
}

entry! {
    /// Room for 13 characters is needed.
    fn cuDeviceGetPCIBusId(pciBusId: *mut c_char, len: c_int, dev: CUdevice) {
        let id = text(device::get(dev)?.card.pci);
        if usize::try_from(len).unwrap_or(0) <= id.len() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        device::copy_text(pciBusId, len, &id)
    }

    fn cuDeviceGetByPCIBusId(dev: *mut CUdevice, pciBusId: *const c_char) {
        if pciBusId.is_null() {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        } else {
            let place = CStr::from_ptr(pciBusId).to_str().ok().and_then(parse);
            let place = place.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            let found = device::all().iter().position(|d| d.card.pci == place);
            let found = found.and_then(|index| CUdevice::try_from(index).ok());
            out(dev, found.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_all_documented_forms() {
        let place = Pci {
            domain: 0,
            bus: 0x1a,
            device: 2,
        };
        for form in ["0000:1a:02.0", "0000:1A:02", "1a:02.0", "00000000:1a:2.0"] {
            assert_eq!(parse(form), Some(place), "{form}");
        }
        for form in [
            "",
            "1a",
            "1a:02",
            "0000:1a:02.1",
            "x:1a:02.0",
            "0:0:1a:02.0",
        ] {
            assert_eq!(parse(form), None, "{form}");
        }
        assert_eq!(parse(&text(place)), Some(place));
    }
}
