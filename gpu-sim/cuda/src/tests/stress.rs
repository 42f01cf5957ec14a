use std::ptr;

use cuda_headers::driver::{CUdeviceptr, CUresult, CUstream};

use super::{Gpu, cu, ok};

const THREADS: u64 = 6;
const ROUNDS: u64 = 600;

/// A small generator: the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

fn allocate(numbers: &mut Numbers, stream: CUstream) -> Option<CUdeviceptr> {
    let size = usize::try_from(1 << numbers.below(23)).unwrap();
    let mut address = 0;
    let answer = if numbers.below(2) == 0 {
        cu!(cuMemAllocAsync(&raw mut address, size, stream))
    } else {
        cu!(cuMemAlloc_v2(&raw mut address, size))
    };
    match answer {
        CUresult::CUDA_SUCCESS => {
            ok!(cuMemsetD8Async(address, 1, size.min(4096), stream));
            Some(address)
        }
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => None,
        other => panic!("{other:?}"),
    }
}

fn work(seed: u64, context: usize) {
    ok!(cuCtxSetCurrent(cuda_headers::driver::CUcontext(
        ptr::without_provenance_mut(context)
    )));
    let mut stream = CUstream(ptr::null_mut());
    ok!(cuStreamCreate(&raw mut stream, 1));
    let mut numbers = Numbers(seed);
    let mut live = Vec::new();
    for _ in 0..ROUNDS {
        if numbers.below(5) < 3 {
            live.extend(allocate(&mut numbers, stream));
        } else if !live.is_empty() {
            let index = usize::try_from(numbers.below(live.len() as u64)).unwrap();
            let address = live.swap_remove(index);
            match numbers.below(4) {
                0 => ok!(cuMemFree_v2(address)),
                _ => ok!(cuMemFreeAsync(address, stream)),
            }
        }
        if numbers.below(50) == 0 {
            ok!(cuStreamSynchronize(stream));
        }
    }
    for address in live {
        ok!(cuMemFreeAsync(address, stream));
    }
    ok!(cuStreamSynchronize(stream));
    ok!(cuStreamDestroy_v2(stream));
}

#[test]
fn threads_that_allocate_at_once_leave_nothing_behind() {
    let gpu = Gpu::new();
    let context = gpu.context.0.addr();
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            scope.spawn(move || work(seed, context));
        }
    });
    ok!(cuCtxSynchronize());
    assert_eq!(gpu.usage(0), (0, 0));
}
