//! Memory of another process: opened by `cuIpcOpenMemHandle`, or imported from its pool by `cuMemPoolImportPointer`.
//!
//! It is one allocation, however often it is mapped: charged to its exporter where that belongs to the same group, which is
//! told by a row in the region that carries a hash of the handle; else to the first process of this group that imports it, which
//! makes a row of its own for the others. Only the driver knows how large it is, so it is asked first, and undone where the
//! answer does not fit. An exporter that goes first leaves its charge to whoever still holds the memory.

mod ask;
mod export;
mod share;

use cuda_headers::driver::{
    CUdeviceptr, CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool, CUresult,
};

use self::export::Exported;
pub(super) use self::export::freed;
pub(crate) use self::export::{get_handle, get_pointer};
use self::share::Share;
use crate::context;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::process::{self, Process};
use crate::table::Table;

/// What this process has imported and exported.
pub(crate) struct Shared {
    /// By address.
    imports: Table<Import>,
    /// By the key of what was imported.
    shares: Table<Share>,
    /// By address.
    exports: Table<Exported>,
}

/// A mapping of imported memory.
#[derive(Copy, Clone)]
struct Import {
    key: u64,
    /// The context that it goes with; 0 for pointers of pools, which go with none.
    context: u32,
    /// How often it was opened: the driver answers the same address.
    opened: u32,
}

/// How an import is undone.
#[derive(Copy, Clone)]
enum Way {
    Handle,
    Pool,
}

impl Shared {
    pub(crate) const fn new() -> Self {
        Self {
            imports: Table::new(),
            shares: Table::new(),
            exports: Table::new(),
        }
    }
}

/// `cuIpcOpenMemHandle`.
pub(crate) fn open(
    address: *mut CUdeviceptr,
    handle: &CUipcMemHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if address.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let context = context::current(process)?.id;
    let key = ask::key(handle.reserved.map(ask::unsigned));
    import(process, address, (key, context), Way::Handle, call)
}

/// `cuMemPoolImportPointer`.
pub(crate) fn import_pointer(
    address: *mut CUdeviceptr,
    pool: CUmemoryPool,
    data: *const CUmemPoolPtrExportData,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if address.is_null() || pool.0.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: NULL, or what the driver reads next.
    let data = unsafe { data.as_ref() }.ok_or(Aside::DriverDecides)?;
    let process = process::limited()?;
    import(
        process,
        address,
        (ask::key(data.reserved), 0),
        Way::Pool,
        call,
    )
}

fn import(
    process: &'static Process,
    address: *mut CUdeviceptr,
    (key, context): (u64, u32),
    way: Way,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let ahead = share::look_ahead(process, key);
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        share::forget(process, ahead);
        return Ok(answer);
    }
    // SAFETY: the driver has just written it for its caller.
    let address = unsafe { address.read() };
    let shared = &process.memory.ipc;
    let again = |import: &mut Import| import.opened += 1;
    if shared.imports.with(address, again).is_some() {
        share::forget(process, ahead);
        return Ok(answer);
    }
    if !share::join(process, key, address, ahead) {
        // SAFETY: an address that the driver has just given and nobody has seen.
        relaxed(|| unsafe {
            match way {
                Way::Handle => call!(cuIpcCloseMemHandle(address)),
                Way::Pool => call!(cuMemFree_v2(address)),
            }
        });
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let fresh = Import {
        key,
        context,
        opened: 0,
    };
    let _ = shared.imports.get_or_insert(address, fresh);
    let first = shared.imports.with(address, |import| {
        import.opened += 1;
        import.opened == 1
    });
    if first == Some(false) {
        // Another thread has opened it at the same moment.
        share::leave(process, key);
    }
    Ok(answer)
}

/// `cuIpcCloseMemHandle`, and `cuMemFree` or `cuMemFreeAsync` of what came from another process's pool.
pub(crate) fn close(
    process: &'static Process,
    address: u64,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let imports = &process.memory.ipc.imports;
    if imports.is_empty() {
        return Err(Aside::Unknown);
    }
    let known = imports.get(address).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        imports.with(address, |import| {
            import.opened = import.opened.saturating_sub(1);
        });
        if imports
            .remove_if(address, |import| import.opened == 0)
            .is_some()
        {
            share::leave(process, known.key);
        }
    }
    Ok(answer)
}

/// A context is gone, and what was opened in it is closed.
pub(super) fn drop_context(process: &Process, context: u32) {
    let imports = &process.memory.ipc.imports;
    if !imports.is_empty() {
        imports.sweep(
            |_, import| import.context == context,
            |_, import| share::leave(process, import.key),
        );
    }
}
