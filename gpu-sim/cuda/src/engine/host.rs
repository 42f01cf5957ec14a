//! Host functions of streams, on a thread of their own: one may block until the GPU has done
//! something else, which the executor must then still be able to make happen.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use gpu_sim_core::now_ns;

use super::drive::{Act, Agenda, drive};
use super::lock;
use super::queue::{Effect, StreamKey};
use crate::executor::SignalsBlocked;
use crate::state;

static SENDER: Mutex<Option<Sender<(StreamKey, Effect)>>> = Mutex::new(None);

/// Runs a host function; when it has returned, the stream goes on.
pub(super) fn run(key: StreamKey, function: Effect) {
    let mut sender = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    let sender = sender.get_or_insert_with(start);
    if sender.send((key, function)).is_err() {
        eprintln!("gpu-sim: the thread for host functions is gone");
        std::process::abort();
    }
}

fn start() -> Sender<(StreamKey, Effect)> {
    let (sender, receiver) = channel::<(StreamKey, Effect)>();
    let _blocked = SignalsBlocked::all();
    let started = std::thread::Builder::new()
        .name("gpu-sim-host".to_owned())
        .spawn(move || {
            for (key, function) in receiver {
                state::in_host_function(function);
                let mut engine = lock();
                let sequence = engine.next_sequence();
                let done = Agenda::new(now_ns(), sequence, Act::HostDone(key));
                engine.real.push(done);
                drop(engine);
                drive();
            }
        });
    if started.is_err() {
        eprintln!("gpu-sim: no thread for host functions");
        std::process::abort();
    }
    sender
}
