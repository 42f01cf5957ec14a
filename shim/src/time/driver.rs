//! The real driver behind [`Gpu`]. Errors are swallowed: those that last are the application's to meet.

use cuda_headers::driver::{
    CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUresult, CUstream,
    CUstreamCaptureStatus,
};
use limiter::{Context, Event, Gpu, Passed, Stream};
use quota_abi::sync::AtomicU32;

use super::clock;
use crate::driver::{call, relaxed};
use crate::guard::outside;
use crate::process;

/// The driver of this process.
pub(super) struct Driver;

impl Gpu for Driver {
    fn quietly<R>(&self, calls: impl FnOnce() -> R) -> R {
        relaxed(calls)
    }

    fn now(&self) -> u64 {
        clock::now()
    }

    fn sleep_until(&self, at: u64, word: &AtomicU32, seen: u32) {
        outside(|| clock::sleep_until(at, word, seen));
    }

    fn ring(&self, word: &AtomicU32) {
        clock::wake_all(word);
    }

    fn current(&self) -> Option<(Context, usize)> {
        let process = process::limited().ok()?;
        let context = self.context()?;
        let mut device = 0;
        // SAFETY: a live out-pointer; reads the calling thread's state.
        succeeded(unsafe { call!(cuCtxGetDevice(&raw mut device)) })?;
        let device = process.devices.get(device)?;
        Some((context, device.number))
    }

    fn captures(&self, stream: Stream) -> bool {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: a live out-pointer, and the stream of the application's own call or of an open marker.
        let answer = unsafe {
            if stream.per_thread {
                call!(cuStreamIsCapturing_ptsz(handle(stream), &raw mut status))
            } else {
                call!(cuStreamIsCapturing(handle(stream), &raw mut status))
            }
        };
        // The driver refuses to say so of the legacy stream while another is captured: nothing may go there.
        answer != CUresult::CUDA_SUCCESS
            || status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    }

    fn create(&self) -> Option<Event> {
        let mut event = CUevent(core::ptr::null_mut());
        // A thread that waits for one of ours would be the application's: so never spinning ones.
        let flags = CUevent_flags::CU_EVENT_DEFAULT.0;
        // SAFETY: a live out-pointer.
        succeeded(unsafe { call!(cuEventCreate(&raw mut event, flags)) })?;
        Some(Event(event.0.addr()))
    }

    fn destroy(&self, event: Event) {
        // SAFETY: an event that `create` made and nobody else knows.
        unsafe { call!(cuEventDestroy_v2(pointer(event))) };
    }

    fn record(&self, event: Event, stream: Stream) -> bool {
        // SAFETY: an event of `create`; the stream of the application's own call, or one with an open
        // marker, which its destruction takes away first.
        let answer = unsafe {
            if stream.per_thread {
                call!(cuEventRecord_ptsz(pointer(event), handle(stream)))
            } else {
                call!(cuEventRecord(pointer(event), handle(stream)))
            }
        };
        answer == CUresult::CUDA_SUCCESS
    }

    fn passed(&self, event: Event) -> Passed {
        // SAFETY: an event of `create`.
        match unsafe { call!(cuEventQuery(pointer(event))) } {
            CUresult::CUDA_SUCCESS => Passed::Yes,
            CUresult::CUDA_ERROR_NOT_READY => Passed::No,
            _ => Passed::Never,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float of milliseconds; what is out of range saturates"
    )]
    fn elapsed(&self, from: Event, to: Event) -> Option<i64> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: a live out-pointer and two events of `create`.
        succeeded(unsafe {
            call!(cuEventElapsedTime(
                &raw mut milliseconds,
                pointer(from),
                pointer(to)
            ))
        })?;
        Some((f64::from(milliseconds) * 1e6) as i64)
    }
}

impl Driver {
    /// The calling thread's context.
    pub(super) fn context(&self) -> Option<Context> {
        let mut context = CUcontext(core::ptr::null_mut());
        // SAFETY: a live out-pointer; reads the calling thread's state.
        succeeded(unsafe { call!(cuCtxGetCurrent(&raw mut context)) })?;
        Some(Context(context.0.addr())).filter(|context| context.0 != 0)
    }

    /// What a device's memory moves, in bytes per microsecond; 0 if the driver does not say.
    pub(super) fn bandwidth(&self, device: CUdevice) -> u32 {
        let kilohertz = attribute(
            device,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        );
        let bits = attribute(
            device,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        );
        // Two transfers a clock. kHz x bytes is bytes per millisecond.
        let bytes = u64::from(kilohertz) * 2 * u64::from(bits) / 8 / 1000;
        u32::try_from(bytes).unwrap_or(0)
    }

    /// The device of a stream that is not necessarily of the current context.
    pub(super) fn device_of(&self, stream: Stream) -> Option<usize> {
        let mut context = CUcontext(core::ptr::null_mut());
        let entered = relaxed(|| {
            // SAFETY: a live out-pointer, and the stream of the application's own call; the context that the
            // driver names is made current for the question and taken back.
            unsafe {
                succeeded(call!(cuStreamGetCtx(handle(stream), &raw mut context)))?;
                succeeded(call!(cuCtxPushCurrent_v2(context)))
            }
        });
        entered?;
        let found = self.current();
        // SAFETY: pops what was pushed above.
        unsafe { call!(cuCtxPopCurrent_v2(&raw mut context)) };
        found.map(|(_, device)| device)
    }
}

fn attribute(device: CUdevice, which: CUdevice_attribute) -> u32 {
    let mut value = 0;
    // SAFETY: a live out-pointer.
    let answer = unsafe { call!(cuDeviceGetAttribute(&raw mut value, which, device)) };
    succeeded(answer)
        .and_then(|()| u32::try_from(value).ok())
        .unwrap_or(0)
}

fn succeeded(answer: CUresult) -> Option<()> {
    (answer == CUresult::CUDA_SUCCESS).then_some(())
}

fn pointer(event: Event) -> CUevent {
    CUevent(core::ptr::with_exposed_provenance_mut(event.0))
}

fn handle(stream: Stream) -> CUstream {
    CUstream(core::ptr::with_exposed_provenance_mut(stream.handle))
}
