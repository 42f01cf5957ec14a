//! What happens when the library is loaded: nothing that a program without CUDA could notice.

use super::{real, weak};

/// The loader calls this before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    real::resolve();
    // A panic must not leave this function; there is nothing to clean up after one.
    let _ = std::panic::catch_unwind(weak::unbind);
}
