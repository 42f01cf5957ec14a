//! Anonymous mappings: memory that is not the application's heap.
//!
//! # Safety
//! The pages are private to the caller, zeroed, and never unmapped except by the caller's own [`release`].

use core::ptr::NonNull;

/// Maps `bytes` of zeroed private memory; `None` when the kernel refuses.
#[must_use]
pub fn anonymous(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(address.cast())
}

/// The same, and a child of `fork` finds it zeroed: how a child that does not share our memory is told from its parent
/// (Linux 4.14; before that the call fails and `None` is returned).
#[must_use]
pub fn wiped_on_fork(bytes: usize) -> Option<NonNull<u8>> {
    let pages = anonymous(bytes)?;
    // SAFETY: the range is the mapping just made.
    if unsafe { libc::madvise(pages.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: nobody has seen the mapping yet.
        unsafe { release(pages, bytes) };
        return None;
    }
    Some(pages)
}

/// Gives a mapping back.
///
/// # Safety
/// `pages` and `bytes` are one mapping of this module that nobody uses any more.
pub unsafe fn release(pages: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(pages.as_ptr().cast(), bytes) };
}
