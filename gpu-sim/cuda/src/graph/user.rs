//! User objects: what an application ties to the life of graphs.

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_headers::driver::{CUgraph, CUhostFn, CUresult, CUuserObject};

use super::{INVALID, resolve_graph};
use crate::entry::{answer, entry, out};
use crate::handles::{Kind, Table};

/// The only flag there is: the destructor may run on any thread.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// References are handed over to the graph, not copied.
const MOVE: c_uint = 1;

struct Object {
    references: AtomicU64,
    destroy: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: the application promises that its destructor can run on any thread.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

static OBJECTS: Table<Object> = Table::new(Kind::UserObject);

/// References that a graph holds, by object.
#[derive(Clone, Default)]
pub(super) struct Held(HashMap<usize, u64>);

impl Held {
    pub(super) fn release_all(self) {
        for (object, count) in self.0 {
            let _ = release(object, count);
        }
    }
}

fn retain(object: usize, count: u64) -> Result<(), CUresult> {
    let object = OBJECTS.get(object).ok_or(INVALID)?;
    object.references.fetch_add(count, Ordering::AcqRel);
    Ok(())
}

/// The last reference runs the destructor.
fn release(handle: usize, count: u64) -> Result<(), CUresult> {
    let object = OBJECTS.get(handle).ok_or(INVALID)?;
    if object.references.load(Ordering::Acquire) < count {
        return Err(INVALID);
    }
    if object.references.fetch_sub(count, Ordering::AcqRel) == count {
        OBJECTS.remove(handle);
        // SAFETY: the application's own function with its own argument.
        unsafe { (object.destroy)(object.data) };
    }
    Ok(())
}

fn positive(count: c_uint) -> Result<u64, CUresult> {
    if (1..=i32::MAX.unsigned_abs()).contains(&count) {
        Ok(u64::from(count))
    } else {
        Err(INVALID)
    }
}

entry! {
    fn cuUserObjectCreate(
        object_out: *mut CUuserObject,
        ptr: *mut c_void,
        destroy: CUhostFn,
        initialRefcount: c_uint,
        flags: c_uint,
    ), null { answer(out(object_out, CUuserObject(0x5000 as *mut _))) } {
        let destroy = destroy.ok_or(INVALID)?;
        if object_out.is_null() || flags != NO_DESTRUCTOR_SYNC {
            return Err(INVALID);
        }
        let references = AtomicU64::new(positive(initialRefcount)?);
        let handle = OBJECTS.insert(Object { references, destroy, data: ptr });
        out(object_out, CUuserObject(handle as *mut _))
    }

    fn cuUserObjectRetain(object: CUuserObject, count: c_uint) {
        retain(object.0 as usize, positive(count)?)
    }

    fn cuUserObjectRelease(object: CUuserObject, count: c_uint) {
        release(object.0 as usize, positive(count)?)
    }

    fn cuGraphRetainUserObject(
        graph: CUgraph,
        object: CUuserObject,
        count: c_uint,
        flags: c_uint,
    ) {
        let (graph, count) = (resolve_graph(graph)?, positive(count)?);
        if flags & !MOVE != 0 {
            return Err(INVALID);
        }
        let object = object.0 as usize;
        if flags & MOVE == 0 {
            retain(object, count)?;
        } else {
            OBJECTS.get(object).ok_or(INVALID)?;
        }
        *graph.inner().objects.0.entry(object).or_default() += count;
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint) {
        let (graph, count) = (resolve_graph(graph)?, positive(count)?);
        let object = object.0 as usize;
        let mut inner = graph.inner();
        let held = inner.objects.0.get_mut(&object).filter(|held| **held >= count);
        *held.ok_or(INVALID)? -= count;
        inner.objects.0.retain(|_, held| *held > 0);
        drop(inner);
        release(object, count)
    }
}
