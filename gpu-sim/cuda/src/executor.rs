//! The thread that makes effects happen in time: memory written by kernels, host functions, ends
//! of copies, without the application having to call.

use std::sync::Arc;
use std::sync::mpsc;

use cuda_headers::driver::CUresult;
use gpu_sim_core::{Member, Simulation};

use crate::engine;

/// Starts the thread, which registers this process and is its sign of life in the simulation.
pub(crate) fn start(simulation: Arc<Simulation>) -> Result<Member, CUresult> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        let registered = Member::register(simulation);
        let alive = registered.is_ok();
        let _ = sender.send(registered);
        if alive {
            engine::run_executor();
        }
    };
    let blocked = SignalsBlocked::all();
    let started = std::thread::Builder::new()
        .name("gpu-sim".to_owned())
        .stack_size(256 << 10)
        .spawn(run);
    drop(blocked);
    started.map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    match receiver.recv() {
        Ok(Ok(member)) => Ok(member),
        Ok(Err(error)) => {
            eprintln!("{error}");
            Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
        }
        Err(_) => Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM),
    }
}

/// All signals blocked in this thread, for a new thread to inherit: the application's handlers
/// must not run on our threads.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn all() -> Self {
        // SAFETY: both sets are valid to write; the second is the mask to go back to.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut old = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
            Self(old)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask was read from this thread.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}
