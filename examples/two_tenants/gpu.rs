//! One GPU as the tenant uses it: a context, a stream, the kernel that keeps the GPU busy.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::driver::{Driver, Handle, check};

/// The kernel: it runs for a number of iterations given as its argument. The simulator takes one
/// iteration for a nanosecond; a real GPU really loops.
const KERNELS: &str = concat!(include_str!("../../gpu-sim/kernels.ptx"), "\0");

/// Launches that may be in flight: what a program does that never waits more than it must.
const DEPTH: usize = 8;

/// Device 0, ready to work.
pub(crate) struct Gpu {
    pub(crate) driver: Driver,
    pub(crate) device: c_int,
    pub(crate) stream: Handle,
    function: Handle,
    events: VecDeque<Handle>,
    in_flight: usize,
}

impl Gpu {
    /// Initialises CUDA and device 0 and loads the kernel.
    pub(crate) fn open() -> Result<Self, String> {
        let driver = Driver::load()?;
        let mut device = 0;
        let (mut context, mut module) = (null_mut(), null_mut());
        let (mut function, mut stream) = (null_mut(), null_mut());
        // SAFETY: the calls come in the documented order; every out-pointer and the
        // NUL-terminated image and name are valid for their call.
        unsafe {
            check("cuInit", (driver.cuInit)(0))?;
            check("cuDeviceGet", (driver.cuDeviceGet)(&raw mut device, 0))?;
            let code = (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device);
            check("cuDevicePrimaryCtxRetain", code)?;
            check("cuCtxSetCurrent", (driver.cuCtxSetCurrent)(context))?;
            let image = KERNELS.as_ptr().cast::<c_void>();
            check(
                "cuModuleLoadData",
                (driver.cuModuleLoadData)(&raw mut module, image),
            )?;
            let code =
                (driver.cuModuleGetFunction)(&raw mut function, module, c"sim_work".as_ptr());
            check("cuModuleGetFunction", code)?;
            // 1: this stream does not wait for the legacy default stream.
            check(
                "cuStreamCreate",
                (driver.cuStreamCreate)(&raw mut stream, 1),
            )?;
        }
        let mut gpu = Self {
            driver,
            device,
            stream,
            function,
            events: VecDeque::new(),
            in_flight: 0,
        };
        for _ in 0..DEPTH {
            let event = gpu.new_event()?;
            gpu.events.push_back(event);
        }
        Ok(gpu)
    }

    /// The device's name and what it has in total, as this process is shown it.
    pub(crate) fn describe(&self) -> Result<(String, usize), String> {
        let mut name = [0_u8; 128];
        let mut total = 0;
        // SAFETY: the buffer is as long as is said, the out-pointer valid.
        unsafe {
            let buffer = name.as_mut_ptr().cast::<c_char>();
            check(
                "cuDeviceGetName",
                (self.driver.cuDeviceGetName)(buffer, 127, self.device),
            )?;
            let code = (self.driver.cuDeviceTotalMem)(&raw mut total, self.device);
            check("cuDeviceTotalMem", code)?;
        }
        let length = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let name = String::from_utf8_lossy(name.get(..length).unwrap_or_default());
        Ok((name.into_owned(), total))
    }

    /// Launches `iterations` of work, first waiting for the oldest launch when [`DEPTH`] are in
    /// flight.
    pub(crate) fn work(&mut self, iterations: u64) -> Result<(), String> {
        let event = self.events.pop_front().ok_or("no event")?;
        if self.in_flight == DEPTH {
            // SAFETY: the event was recorded when it was last used.
            let code = unsafe { (self.driver.cuEventSynchronize)(event) };
            check("cuEventSynchronize", code)?;
        } else {
            self.in_flight += 1;
        }
        self.launch(iterations)?;
        self.record(event)?;
        self.events.push_back(event);
        Ok(())
    }

    /// Waits until everything launched is done.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.in_flight = 0;
        // SAFETY: the stream exists.
        check("cuStreamSynchronize", unsafe {
            (self.driver.cuStreamSynchronize)(self.stream)
        })
    }

    /// Nanoseconds that one iteration takes on this GPU.
    ///
    /// The least of several tries: a launch that the quota delays lengthens the interval between
    /// its two events, but never shortens it.
    pub(crate) fn calibrate(&mut self) -> Result<f64, String> {
        const ITERATIONS: u32 = 200_000;
        let (start, end) = (self.new_event()?, self.new_event()?);
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            self.record(start)?;
            self.launch(u64::from(ITERATIONS))?;
            self.record(end)?;
            self.drain()?;
            let mut milliseconds = 0.0;
            // SAFETY: both events were recorded and have completed.
            let code =
                unsafe { (self.driver.cuEventElapsedTime)(&raw mut milliseconds, start, end) };
            check("cuEventElapsedTime", code)?;
            least = least.min(f64::from(milliseconds) * 1e6 / f64::from(ITERATIONS));
        }
        Ok(least)
    }

    fn new_event(&self) -> Result<Handle, String> {
        let mut event = null_mut();
        // SAFETY: the out-pointer is valid.
        let code = unsafe { (self.driver.cuEventCreate)(&raw mut event, 0) };
        check("cuEventCreate", code).map(|()| event)
    }

    fn record(&self, event: Handle) -> Result<(), String> {
        // SAFETY: event and stream exist.
        check("cuEventRecord", unsafe {
            (self.driver.cuEventRecord)(event, self.stream)
        })
    }

    fn launch(&self, mut iterations: u64) -> Result<(), String> {
        let mut arguments = [(&raw mut iterations).cast::<c_void>()];
        // SAFETY: the kernel takes one u64, and the driver copies it before it returns.
        let code = unsafe {
            (self.driver.cuLaunchKernel)(
                self.function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                self.stream,
                arguments.as_mut_ptr(),
                null::<*mut c_void>().cast_mut(),
            )
        };
        check("cuLaunchKernel", code)
    }
}
