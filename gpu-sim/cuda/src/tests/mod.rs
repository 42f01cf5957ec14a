//! Tests that call the exported functions as a program does, on a simulation of their own: two
//! devices, of 1 GiB and of 512 MiB. One test runs at a time, each with a fresh context.

mod arrays;
mod captures;
mod contexts;
mod copies;
mod devices;
mod graphs;
mod launches;
mod memory;
mod modules;
mod pools;
mod share;
mod streams;
mod stress;
mod vmm;
mod work;

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use cuda_headers::driver::{CUcontext, CUresult};

/// Calls an exported function by its name.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let address = crate::symbols::address(stringify!($name)).unwrap();
        // SAFETY: the exported function of this name has this type, which is checked where it is
        // defined.
        let function: cuda_headers::fns::$name = unsafe { std::mem::transmute(address) };
        // SAFETY: the tests pass valid pointers, or NULL to see it refused.
        unsafe { function($($arg),*) }
    }};
}

/// The same, and it must succeed.
macro_rules! ok {
    ($($call:tt)*) => {
        assert_eq!(cu!($($call)*), cuda_headers::driver::CUresult::CUDA_SUCCESS)
    };
}

use {cu, ok};

const MIB: usize = 1 << 20;
const BLOCK: u64 = 2 << 20;
const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const OUT_OF_MEMORY: CUresult = CUresult::CUDA_ERROR_OUT_OF_MEMORY;

/// A context on the first device; the only one of the process.
struct Gpu {
    context: CUcontext,
    _alone: MutexGuard<'static, ()>,
}

impl Gpu {
    fn new() -> Self {
        Self::on(0)
    }

    fn on(device: i32) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        initialise();
        let mut context = CUcontext(std::ptr::null_mut());
        ok!(cuCtxCreate_v2(&raw mut context, 0, device));
        Self {
            context,
            _alone: alone,
        }
    }

    /// (held, requested) by this process on a device, the context itself not counted.
    fn usage(&self, device: usize) -> (u64, u64) {
        crate::vmm::collect();
        let usage = crate::state::member().unwrap().usage(device);
        let context = crate::state::simulation().unwrap().context_bytes();
        (usage.used.saturating_sub(context), usage.requested)
    }
}

impl Gpu {
    /// What this process holds of a device, contexts included.
    fn usage_with_contexts(&self, device: usize) -> u64 {
        crate::state::member().unwrap().usage(device).used
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        cu!(cuCtxDestroy_v2(self.context));
    }
}

fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let path = std::env::temp_dir().join(format!("gpu-sim-test.{}", std::process::id()));
        // SAFETY: every test comes here first, and no other thread reads the environment yet.
        unsafe {
            std::env::set_var("GPU_SIM", &path);
            std::env::set_var("GPU_SIM_DEVICES", "1GiB,512MiB");
            std::env::remove_var("CUDA_VISIBLE_DEVICES");
            std::env::remove_var("GPU_SIM_MODE");
        }
        ok!(cuInit(0));
        // It stays mapped; nobody else is to find it.
        std::fs::remove_file(&path).unwrap();
    });
}
