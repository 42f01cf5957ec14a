//! Texture and surface objects: descriptions by number. Kernels of the simulator read none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUresourcetype, CUresult,
    CUsurfObject, CUtexObject,
};

use crate::entry::{answer, entry, input, out};
use crate::{array, memory, state};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[derive(Clone, Copy)]
struct Object {
    resource: CUDA_RESOURCE_DESC,
    texture: Option<CUDA_TEXTURE_DESC>,
    view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

// SAFETY: the descriptions hold handles and device addresses, which are not followed as pointers.
unsafe impl Send for Object {}

static OBJECTS: Mutex<Option<HashMap<u64, Object>>> = Mutex::new(None);

fn objects<T>(with: impl FnOnce(&mut HashMap<u64, Object>) -> T) -> T {
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    with(objects.get_or_insert_default())
}

fn add(object: Object) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    objects(|all| all.insert(number, object));
    number
}

fn get(number: u64, texture: bool) -> Result<Object, CUresult> {
    let found = objects(|all| all.get(&number).copied());
    found
        .filter(|object| object.texture.is_some() == texture)
        .ok_or(INVALID)
}

fn remove(number: u64, texture: bool) -> Result<(), CUresult> {
    get(number, texture)?;
    objects(|all| all.remove(&number));
    Ok(())
}

/// The resource exists.
fn check(resource: &CUDA_RESOURCE_DESC) -> Result<(), CUresult> {
    // SAFETY: each member is read only for the type that selects it.
    unsafe {
        match resource.resType {
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
                array::get(resource.res.array.hArray).map(|_| ())
            }
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                array::mipmapped(resource.res.mipmap.hMipmappedArray).map(|_| ())
            }
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => memory::find(resource.res.linear.devPtr)
                .map(|_| ())
                .ok_or(INVALID),
            CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => memory::find(resource.res.pitch2D.devPtr)
                .map(|_| ())
                .ok_or(INVALID),
            _ => Err(INVALID),
        }
    }
}

entry! {
    fn cuTexObjectCreate(
        pTexObject: *mut CUtexObject,
        pResDesc: *const CUDA_RESOURCE_DESC,
        pTexDesc: *const CUDA_TEXTURE_DESC,
        pResViewDesc: *const CUDA_RESOURCE_VIEW_DESC,
    ), null { answer(out(pTexObject, 1)) } {
        state::current()?;
        let (resource, texture) = (*input(pResDesc)?, *input(pTexDesc)?);
        check(&resource)?;
        if pTexObject.is_null() {
            return Err(INVALID);
        }
        let view = pResViewDesc.as_ref().copied();
        out(pTexObject, add(Object { resource, texture: Some(texture), view }))
    }

    fn cuTexObjectDestroy(texObject: CUtexObject) {
        remove(texObject, true)
    }

    fn cuTexObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC, texObject: CUtexObject) {
        out(pResDesc, get(texObject, true)?.resource)
    }

    fn cuTexObjectGetTextureDesc(pTexDesc: *mut CUDA_TEXTURE_DESC, texObject: CUtexObject) {
        out(pTexDesc, get(texObject, true)?.texture.ok_or(INVALID)?)
    }

    fn cuTexObjectGetResourceViewDesc(
        pResViewDesc: *mut CUDA_RESOURCE_VIEW_DESC,
        texObject: CUtexObject,
    ) {
        out(pResViewDesc, get(texObject, true)?.view.ok_or(INVALID)?)
    }

    /// Of arrays only.
    fn cuSurfObjectCreate(pSurfObject: *mut CUsurfObject, pResDesc: *const CUDA_RESOURCE_DESC),
    null { answer(out(pSurfObject, 1)) } {
        state::current()?;
        let resource = *input(pResDesc)?;
        if resource.resType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY || pSurfObject.is_null() {
            return Err(INVALID);
        }
        check(&resource)?;
        out(pSurfObject, add(Object { resource, texture: None, view: None }))
    }

    fn cuSurfObjectDestroy(surfObject: CUsurfObject) {
        remove(surfObject, false)
    }

    fn cuSurfObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC, surfObject: CUsurfObject) {
        out(pResDesc, get(surfObject, false)?.resource)
    }
}
