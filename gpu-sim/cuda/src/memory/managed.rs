//! Hints for managed memory. They are kept and answered, and move nothing: every byte of managed
//! memory is where host and device both reach it.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{
    CUdevice, CUdeviceptr, CUmem_advise as Advice, CUmem_range_attribute as Attribute,
    CUmemLocation, CUmemLocationType, CUresult, CUstream,
};

use crate::entry::entry;
use crate::memory;
use crate::{device, order};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// How a device number says the host, and that there is none.
const CPU: c_int = -1;
const NOWHERE: c_int = -2;

#[derive(Debug, Clone)]
struct Hints {
    read_mostly: bool,
    preferred: c_int,
    accessed_by: Vec<c_int>,
    prefetched: c_int,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            read_mostly: false,
            preferred: NOWHERE,
            accessed_by: Vec::new(),
            prefetched: NOWHERE,
        }
    }
}

/// By the id of the allocation, as a whole.
static HINTS: Mutex<Option<HashMap<u64, Hints>>> = Mutex::new(None);

fn hints<T>(id: u64, with: impl FnOnce(&mut Hints) -> T) -> T {
    let mut hints = HINTS.lock().unwrap_or_else(PoisonError::into_inner);
    with(hints.get_or_insert_default().entry(id).or_default())
}

/// Id of the managed allocation in which a range lies.
fn managed(address: CUdeviceptr, len: usize) -> Result<u64, CUresult> {
    let found = memory::find(address).filter(|found| found.family.is_managed());
    let found = found.filter(|found| len > 0 && found.contains(address, len));
    found.map(|found| found.id).ok_or(INVALID)
}

/// A location as a device number, or -1 for the host.
fn place(location: &CUmemLocation) -> Result<c_int, CUresult> {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            // SAFETY: every bit pattern is an int, and the type says that it is meant.
            Ok(unsafe { location.__bindgen_anon_1.id })
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
        | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
        | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(CPU),
        _ => Err(INVALID),
    }
}

fn known(place: c_int) -> Result<(), CUresult> {
    if place == CPU {
        Ok(())
    } else {
        device::get(place).map(|_| ())
    }
}

fn advise(address: CUdeviceptr, len: usize, advice: Advice, place: c_int) -> Result<(), CUresult> {
    let id = managed(address, len)?;
    // The read-mostly hints and the one that unsets the location ignore the place.
    if matches!(
        advice,
        Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION
            | Advice::CU_MEM_ADVISE_SET_ACCESSED_BY
            | Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY
    ) {
        known(place)?;
    }
    hints(id, |hints| {
        match advice {
            Advice::CU_MEM_ADVISE_SET_READ_MOSTLY => hints.read_mostly = true,
            Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY => hints.read_mostly = false,
            Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => hints.preferred = place,
            Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => hints.preferred = NOWHERE,
            Advice::CU_MEM_ADVISE_SET_ACCESSED_BY if !hints.accessed_by.contains(&place) => {
                hints.accessed_by.push(place);
            }
            Advice::CU_MEM_ADVISE_SET_ACCESSED_BY => {}
            Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY => hints.accessed_by.retain(|p| *p != place),
            _ => return Err(INVALID),
        }
        Ok(())
    })
}

fn prefetch(
    address: CUdeviceptr,
    len: usize,
    place: c_int,
    stream: (CUstream, bool),
) -> Result<(), CUresult> {
    order::context_of(stream.0, stream.1)?;
    let id = managed(address, len)?;
    known(place)?;
    hints(id, |hints| hints.prefetched = place);
    Ok(())
}

/// # Safety
/// `data` is valid for `size` bytes.
unsafe fn answer(
    data: *mut c_void,
    size: usize,
    attribute: Attribute,
    id: u64,
) -> Result<(), CUresult> {
    if data.is_null() || size < 4 || !size.is_multiple_of(4) {
        return Err(INVALID);
    }
    let hints = hints(id, |hints| hints.clone());
    let location = |place: c_int| match place {
        CPU => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST.0.cast_signed(),
        NOWHERE => CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID
            .0
            .cast_signed(),
        _ => CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
            .0
            .cast_signed(),
    };
    let one = match attribute {
        Attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => c_int::from(hints.read_mostly),
        Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
        | Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => hints.preferred,
        Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
        | Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => hints.prefetched,
        Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => location(hints.preferred),
        Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => location(hints.prefetched),
        Attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
            let mut places = hints
                .accessed_by
                .into_iter()
                .chain(std::iter::repeat(NOWHERE));
            for index in 0..size / 4 {
                let place = places.next().unwrap_or(NOWHERE);
                // SAFETY: inside the `size` bytes of the caller's promise.
                unsafe { data.cast::<c_int>().add(index).write(place) };
            }
            return Ok(());
        }
        _ => return Err(INVALID),
    };
    if size != 4 {
        return Err(INVALID);
    }
    // SAFETY: at least four bytes.
    unsafe { data.cast::<c_int>().write(one) };
    Ok(())
}

entry! {
    fn cuMemAdvise(devPtr: CUdeviceptr, count: usize, advice: Advice, device: CUdevice) {
        advise(devPtr, count, advice, device)
    }

    fn cuMemAdvise_v2(
        devPtr: CUdeviceptr,
        count: usize,
        advice: Advice,
        location: CUmemLocation,
    ) {
        let unset = advice == Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
        let read_mostly = advice == Advice::CU_MEM_ADVISE_SET_READ_MOSTLY
            || advice == Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY;
        let place = if unset || read_mostly { NOWHERE } else { place(&location)? };
        advise(devPtr, count, advice, place)
    }

    fn cuMemPrefetchAsync(
        devPtr: CUdeviceptr,
        count: usize,
        dstDevice: CUdevice,
        hStream: CUstream,
    ) => cuMemPrefetchAsync_ptsz {
        prefetch(devPtr, count, dstDevice, (hStream, PER_THREAD))
    }

    fn cuMemPrefetchAsync_v2(
        devPtr: CUdeviceptr,
        count: usize,
        location: CUmemLocation,
        flags: c_uint,
        hStream: CUstream,
    ) => cuMemPrefetchAsync_v2_ptsz {
        if flags != 0 {
            return Err(INVALID);
        }
        prefetch(devPtr, count, place(&location)?, (hStream, PER_THREAD))
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        dataSize: usize,
        attribute: Attribute,
        devPtr: CUdeviceptr,
        count: usize,
    ) {
        answer(data, dataSize, attribute, managed(devPtr, count)?)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void,
        dataSizes: *mut usize,
        attributes: *mut Attribute,
        numAttributes: usize,
        devPtr: CUdeviceptr,
        count: usize,
    ) {
        let id = managed(devPtr, count)?;
        if data.is_null() || dataSizes.is_null() || attributes.is_null() || numAttributes == 0 {
            return Err(INVALID);
        }
        (0..numAttributes).try_for_each(|index| {
            let (data, size) = (data.add(index).read(), dataSizes.add(index).read());
            answer(data, size, attributes.add(index).read(), id)
        })
    }
}
