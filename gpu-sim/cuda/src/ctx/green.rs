//! Green contexts: a set of multiprocessors, and a retained primary context. They have no memory of their own; the `CUcontext`
//! of one stands for the primary one. Which multiprocessors its kernels run on is not simulated.

use std::ffi::c_uint;
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{
    CUcontext, CUdevResource, CUdevResourceDesc, CUdevResourceType, CUdevice, CUgreenCtx,
    CUgreenCtxCreate_flags, CUresult,
};

use super::{Context, alias, end_alias, primary};
use crate::device;
use crate::entry::{entry, input, out};
use crate::handles::{Kind, Table};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// Multiprocessors of the smallest part, and what parts are multiples of: those of compute capability 9.
const LEAST: c_uint = 8;

struct Green {
    device: CUdevice,
    context: &'static Context,
    resource: Resource,
}

/// The part of a device that a descriptor stands for.
#[derive(Clone, Copy)]
struct Resource {
    device: CUdevice,
    processors: c_uint,
}

static GREENS: Table<Green> = Table::new(Kind::GreenContext);
/// Descriptors are valid as long as the process.
static DESCRIPTORS: Mutex<Vec<Resource>> = Mutex::new(Vec::new());
/// Where the device is kept in the part of a resource that the header calls padding.
const DEVICE_AT: usize = 0;

fn get(green: CUgreenCtx) -> Result<std::sync::Arc<Green>, CUresult> {
    GREENS
        .get(green.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

fn write(resource: Resource) -> CUdevResource {
    // SAFETY: numbers and a pointer, for which zero is a value.
    let mut written: CUdevResource = unsafe { std::mem::zeroed() };
    written.type_ = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    written._internal_padding[DEVICE_AT] = u8::try_from(resource.device + 1).unwrap_or(0);
    written.__bindgen_anon_1.sm.smCount = resource.processors;
    written.__bindgen_anon_1.sm.minSmPartitionSize = LEAST;
    written.__bindgen_anon_1.sm.smCoscheduledAlignment = LEAST;
    written
}

fn read(resource: &CUdevResource) -> Result<Resource, CUresult> {
    if resource.type_ != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
        return Err(CUresult::CUDA_ERROR_INVALID_RESOURCE_TYPE);
    }
    let device = CUdevice::from(resource._internal_padding[DEVICE_AT]) - 1;
    device::get(device).map_err(|_| INVALID)?;
    // SAFETY: the type selects it.
    let processors = unsafe { resource.__bindgen_anon_1.sm.smCount };
    Ok(Resource { device, processors })
}

fn whole(device: CUdevice, kind: CUdevResourceType) -> Result<CUdevResource, CUresult> {
    let found = device::get(device)?;
    if kind != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
        return Err(CUresult::CUDA_ERROR_INVALID_RESOURCE_TYPE);
    }
    let processors = found.card.multiprocessors;
    Ok(write(Resource { device, processors }))
}

entry! {
    fn cuDeviceGetDevResource(
        device: CUdevice,
        resource: *mut CUdevResource,
        type_: CUdevResourceType,
    ) {
        out(resource, whole(device, type_)?)
    }

    /// Equal parts of at least so many multiprocessors.
    fn cuDevSmResourceSplitByCount(
        result: *mut CUdevResource,
        nbGroups: *mut c_uint,
        input: *const CUdevResource,
        remainder: *mut CUdevResource,
        flags: c_uint,
        minCount: c_uint,
    ) {
        let resource = read(crate::entry::input(input)?)?;
        let wanted = crate::entry::input(nbGroups.cast_const())?;
        if flags > 3 || minCount > resource.processors {
            return Err(INVALID);
        }
        let each = minCount.max(LEAST).next_multiple_of(LEAST);
        let most = resource.processors / each;
        let groups = if result.is_null() { most } else { most.min(*wanted) };
        if groups == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
        }
        for group in 0..groups as usize {
            if !result.is_null() {
                result.add(group).write(write(Resource { processors: each, ..resource }));
            }
        }
        if !remainder.is_null() {
            let processors = resource.processors - groups * each;
            remainder.write(write(Resource { processors, ..resource }));
        }
        out(nbGroups, groups)
    }

    fn cuDevResourceGenerateDesc(
        phDesc: *mut CUdevResourceDesc,
        resources: *mut CUdevResource,
        nbResources: c_uint,
    ) {
        input(resources.cast_const())?;
        if phDesc.is_null() || nbResources == 0 {
            return Err(INVALID);
        }
        let mut sum = read(&*resources)?;
        for other in 1..nbResources as usize {
            let other = read(&*resources.add(other))?;
            if other.device != sum.device {
                return Err(CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
            }
            sum.processors += other.processors;
        }
        let mut all = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(sum);
        out(phDesc, CUdevResourceDesc(std::ptr::without_provenance_mut(all.len())))
    }

    /// Documented: retains the primary context, and must have a default stream of its own.
    fn cuGreenCtxCreate(
        phCtx: *mut CUgreenCtx,
        desc: CUdevResourceDesc,
        dev: CUdevice,
        flags: c_uint,
    ) {
        device::get(dev)?;
        let known = {
            let all = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
            desc.0.addr().checked_sub(1).and_then(|index| all.get(index).copied())
        };
        let resource = known.ok_or(INVALID)?;
        let known = flags & !CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0 == 0;
        if phCtx.is_null() || !known || resource.device != dev || resource.processors == 0 {
            return Err(INVALID);
        }
        let context = alias(primary::retain(dev)?)?;
        let number = GREENS.insert(Green { device: dev, context, resource });
        out(phCtx, CUgreenCtx(std::ptr::without_provenance_mut(number)))
    }

    fn cuGreenCtxDestroy(hCtx: CUgreenCtx) {
        let green = get(hCtx)?;
        crate::order::unsafe_call()?;
        GREENS.remove(hCtx.0.addr());
        end_alias(green.context);
        // After a reset there may be nothing to release; the green context is gone all the same.
        let _ = primary::release(green.device);
        Ok(())
    }

    fn cuCtxFromGreenCtx(pContext: *mut CUcontext, hCtx: CUgreenCtx) {
        out(pContext, get(hCtx)?.context.handle)
    }

    fn cuGreenCtxGetDevResource(
        hCtx: CUgreenCtx,
        resource: *mut CUdevResource,
        type_: CUdevResourceType,
    ) {
        let green = get(hCtx)?;
        if type_ != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
            return Err(CUresult::CUDA_ERROR_INVALID_RESOURCE_TYPE);
        }
        out(resource, write(green.resource))
    }
}
