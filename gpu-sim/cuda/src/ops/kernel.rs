//! Kernels: how long they last, and what the built-in ones do.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_headers::driver::{CUfunction, CUresult};

use super::{GpuWork, costs, enqueue_gpu_work};
use crate::ctx::Context;
use crate::engine::{self, Condition, Effect, StreamKey, Work};
use crate::memory;
use crate::module::Loaded;
use crate::module::function::{Builtin, Function};
use crate::stream::load_32;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

impl Grid {
    pub(crate) fn threads(&self) -> u64 {
        let all = self.grid.iter().chain(&self.block);
        all.fold(1, |threads: u64, part| {
            threads.saturating_mul(u64::from(*part))
        })
    }
}

/// A kernel with its arguments.
pub(crate) struct Kernel {
    pub(crate) handle: CUfunction,
    pub(crate) function: Arc<Loaded>,
    pub(crate) context: &'static Context,
    pub(crate) grid: Grid,
    /// The parameter buffer.
    pub(crate) params: Vec<u8>,
    /// The address of each parameter in the buffer, for who asks a graph's node.
    pub(crate) pointers: Vec<*mut c_void>,
}

// SAFETY: the handle is an opaque value, and the pointers point into the kernel's own buffer.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    pub(crate) fn new(
        handle: CUfunction,
        function: Arc<Loaded>,
        context: &'static Context,
        grid: Grid,
        mut params: Vec<u8>,
    ) -> Self {
        let start = params.as_mut_ptr();
        let pointers = function
            .function
            .params
            .iter()
            .map(|param| start.wrapping_add(param.offset).cast())
            .collect();
        Self {
            handle,
            function,
            context,
            grid,
            params,
            pointers,
        }
    }
}

/// What a kernel is, for the GPU's queue.
enum Shape {
    Timed(GpuWork),
    /// Until a condition holds, or for ever.
    Spinning(Option<Condition>),
}

impl Kernel {
    pub(super) fn gpu_work(&self) -> Option<GpuWork> {
        match self.shape() {
            Shape::Timed(work) => Some(work),
            Shape::Spinning(_) => None,
        }
    }

    pub(super) fn enqueue(&self, key: StreamKey) -> Result<(), CUresult> {
        match self.shape() {
            Shape::Timed(work) => enqueue_gpu_work(key, work),
            Shape::Spinning(condition) => engine::enqueue(key, Work::Spin(condition)),
        }
    }

    fn shape(&self) -> Shape {
        let timed = |duration, effect| Shape::Timed(GpuWork { duration, effect });
        let function: &Function = &self.function.function;
        let Some(builtin) = function.builtin else {
            return timed(costs().kernel(self.grid.threads()), None);
        };
        let word = |index| self.word(index);
        let context = self.context;
        match builtin {
            Builtin::Work => timed(word(0), None),
            Builtin::Forever => Shape::Spinning(None),
            Builtin::WaitWord => {
                let (address, value) = (word(0), self.value(1));
                if !accessible(&[(address, 4)]) {
                    return timed(costs().kernel(1), breaking(context));
                }
                Shape::Spinning(Some(Box::new(move || load_32(address) == value)))
            }
            Builtin::StoreWord => {
                let (address, value) = (word(0), self.value(1));
                timed(
                    costs().kernel(1),
                    effect(context, &[(address, 4)], move || {
                        crate::stream::store_32(address, value);
                    }),
                )
            }
            Builtin::FillU32 => {
                let (to, count, value) = (word(0), word(1), self.value(2));
                let bytes = count.saturating_mul(4);
                timed(
                    costs().memory(bytes),
                    effect(context, &[(to, bytes)], move || fill(to, count, value)),
                )
            }
            Builtin::AddF32 => {
                let (a, b, to, count) = (word(0), word(1), word(2), word(3));
                let bytes = count.saturating_mul(4);
                let all = [(a, bytes), (b, bytes), (to, bytes)];
                timed(
                    costs().memory(bytes.saturating_mul(3)),
                    effect(context, &all, move || add(a, b, to, count)),
                )
            }
            Builtin::CopyU8 => {
                let (to, from, bytes) = (word(0), word(1), word(2));
                timed(
                    costs().memory(bytes.saturating_mul(2)),
                    effect(context, &[(to, bytes), (from, bytes)], move || {
                        copy(to, from, bytes);
                    }),
                )
            }
        }
    }

    /// Parameter `index`, which is a 64-bit word.
    fn word(&self, index: usize) -> u64 {
        self.param(index).map_or(0, u64::from_ne_bytes)
    }

    /// Parameter `index`, which is a 32-bit word.
    fn value(&self, index: usize) -> u32 {
        self.param(index).map_or(0, u32::from_ne_bytes)
    }

    fn param<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        let offset = self.function.function.params.get(index)?.offset;
        self.params.get(offset..offset + N)?.try_into().ok()
    }
}

/// Whether memory can be used. Asked at the launch: an allocation may be given back, in stream
/// order, before the kernel has run.
fn accessible(ranges: &[(u64, u64)]) -> bool {
    ranges.iter().all(|(address, bytes)| {
        *bytes == 0
            || usize::try_from(*bytes).is_ok_and(|bytes| {
                memory::find(*address)
                    .is_some_and(|found| found.accessible && found.contains(*address, bytes))
            })
    })
}

/// What a kernel does that uses memory where there is none: it ends its context.
fn breaking(context: &'static Context) -> Option<Effect> {
    Some(Box::new(move || {
        context.poison(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    }))
}

fn effect(
    context: &'static Context,
    ranges: &[(u64, u64)],
    run: impl FnOnce() + Send + 'static,
) -> Option<Effect> {
    if accessible(ranges) {
        Some(Box::new(run))
    } else {
        breaking(context)
    }
}

fn fill(to: u64, count: u64, value: u32) {
    for index in 0..count {
        // SAFETY: checked to be accessible at the launch.
        unsafe { ((to + index * 4) as *mut u32).write_unaligned(value) };
    }
}

fn add(a: u64, b: u64, to: u64, count: u64) {
    for index in 0..count {
        let at = index * 4;
        // SAFETY: checked to be accessible at the launch.
        unsafe {
            let sum = ((a + at) as *const f32).read_unaligned()
                + ((b + at) as *const f32).read_unaligned();
            ((to + at) as *mut f32).write_unaligned(sum);
        }
    }
}

fn copy(to: u64, from: u64, bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else {
        return;
    };
    // SAFETY: checked to be accessible at the launch.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}
