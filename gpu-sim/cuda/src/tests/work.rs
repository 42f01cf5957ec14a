//! What the tests of time share: the built-in kernels, streams, events.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cuda_headers::driver::{
    CUdeviceptr, CUevent, CUfunction, CUgraph, CUmodule, CUresult, CUstream,
};

use super::{cu, ok};

const PTX: &str = concat!(include_str!("../../../kernels.ptx"), "\0");

/// Far longer than anything here takes: when it is over, something hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) const NULL_STREAM: CUstream = CUstream::NULL;
pub(super) const NON_BLOCKING: u32 = 1;
pub(super) const MS: u64 = 1_000_000;

/// The built-in kernels, loaded in the current context.
pub(super) struct Kernels(CUmodule);

impl Kernels {
    pub(super) fn load() -> Self {
        let mut module = CUmodule::NULL;
        ok!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
        Self(module)
    }

    pub(super) fn get(&self, name: &std::ffi::CStr) -> CUfunction {
        let mut function = CUfunction::NULL;
        ok!(cuModuleGetFunction(
            &raw mut function,
            self.0,
            name.as_ptr()
        ));
        function
    }

    fn launch(&self, stream: CUstream, name: &std::ffi::CStr, params: &mut [*mut c_void]) {
        assert_eq!(
            launch(self.get(name), stream, params),
            CUresult::CUDA_SUCCESS
        );
    }

    /// So many nanoseconds of GPU time.
    pub(super) fn work(&self, stream: CUstream, mut ns: u64) {
        self.launch(stream, c"sim_work", &mut [(&raw mut ns).cast()]);
    }

    pub(super) fn wait_word(&self, stream: CUstream, mut address: CUdeviceptr, mut value: u32) {
        let params = &mut [(&raw mut address).cast(), (&raw mut value).cast()];
        self.launch(stream, c"sim_wait_word", params);
    }

    pub(super) fn store_word(&self, stream: CUstream, mut address: CUdeviceptr, mut value: u32) {
        let params = &mut [(&raw mut address).cast(), (&raw mut value).cast()];
        self.launch(stream, c"sim_store_word", params);
    }

    pub(super) fn fill(
        &self,
        stream: CUstream,
        mut to: CUdeviceptr,
        mut count: u64,
        mut value: u32,
    ) {
        let params = &mut [
            (&raw mut to).cast(),
            (&raw mut count).cast(),
            (&raw mut value).cast(),
        ];
        self.launch(stream, c"sim_fill_u32", params);
    }

    pub(super) fn forever(&self, stream: CUstream) {
        self.launch(stream, c"sim_forever", &mut []);
    }
}

/// One thread of a kernel.
pub(super) fn launch(
    function: CUfunction,
    stream: CUstream,
    params: &mut [*mut c_void],
) -> CUresult {
    launch_shape(function, [1, 1, 1], [1, 1, 1], 0, stream, params)
}

pub(super) fn launch_shape(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    params: &mut [*mut c_void],
) -> CUresult {
    let (params, extra) = (params.as_mut_ptr(), std::ptr::null_mut());
    let [x, y, z] = grid;
    let [bx, by, bz] = block;
    cu!(cuLaunchKernel(
        function, x, y, z, bx, by, bz, shared, stream, params, extra
    ))
}

pub(super) fn stream(flags: u32) -> CUstream {
    let mut stream = CUstream::NULL;
    ok!(cuStreamCreate(&raw mut stream, flags));
    stream
}

pub(super) fn event() -> CUevent {
    let mut event = CUevent::NULL;
    ok!(cuEventCreate(&raw mut event, 0));
    event
}

pub(super) fn record(stream: CUstream) -> CUevent {
    let event = event();
    ok!(cuEventRecord(event, stream));
    event
}

/// Waits for both and tells the milliseconds between them.
pub(super) fn between(start: CUevent, end: CUevent) -> f32 {
    let mut ms = 0.0;
    ok!(cuEventSynchronize(start));
    ok!(cuEventSynchronize(end));
    ok!(cuEventElapsedTime(&raw mut ms, start, end));
    ms
}

/// A word of device memory, zero.
pub(super) fn word() -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, 4));
    ok!(cuMemsetD32_v2(address, 0, 1));
    ok!(cuCtxSynchronize());
    address
}

pub(super) fn wait_for(stream: CUstream, address: CUdeviceptr, value: u32) {
    ok!(cuStreamWaitValue32_v2(stream, address, value, 1));
}

/// Writes a word from a stream of its own.
pub(super) fn write(address: CUdeviceptr, value: u32) {
    let own = stream(NON_BLOCKING);
    ok!(cuStreamWriteValue32_v2(own, address, value, 0));
    ok!(cuStreamSynchronize(own));
    ok!(cuStreamDestroy_v2(own));
}

/// Waits until something has become true without any call of the driver.
pub(super) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Captures what `put` does to a stream.
pub(super) fn capture(stream: CUstream, put: impl FnOnce()) -> CUgraph {
    let relaxed = cuda_headers::driver::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let mut graph = CUgraph::NULL;
    ok!(cuStreamBeginCapture_v2(stream, relaxed));
    put();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    graph
}
