//! One word of each thread: where on its stack its outermost hook is.
//!
//! Every hook looks at it, and the compiler's way to a thread-local of a library is a call of `__tls_get_addr`, which looks for the
//! library's block by way of two tables. A TLS descriptor costs less than half of that where the block was there from the start, as
//! it is for a preloaded library, and works for one that is loaded late as well; `static TLS` would not. On aarch64 it is the compiler's
//! own way.

use core::cell::Cell;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss.quota_shim_inside,\"awT\",@nobits",
    ".balign 8",
    ".globl quota_shim_inside",
    ".hidden quota_shim_inside",
    ".type quota_shim_inside,@object",
    ".size quota_shim_inside, 8",
    "quota_shim_inside:",
    ".zero 8",
    ".popsection",
);

#[cfg(not(target_arch = "x86_64"))]
std::thread_local! {
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Hands the calling thread's word to `look`; 0 in a new thread. No destructor: libraries call the driver after a thread's destructors
/// ran.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Cell<usize>) -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        let word: *const Cell<usize>;
        // SAFETY: the sequence that the ABI names for a descriptor, in the registers that it names; it leaves all others alone, but C
        // libraries have been known not to. The word at `fs:0` is the address of its own thread's block. The answer is the same all along
        // a thread, and no memory of ours is touched.
        unsafe {
            core::arch::asm!(
                "lea rax, [rip + quota_shim_inside@TLSDESC]",
                "call [rax + quota_shim_inside@TLSCALL]",
                "add rax, fs:[0]",
                out("rax") word,
                clobber_abi("C"),
                options(pure, nomem),
            );
        }
        // SAFETY: eight bytes of this thread's own, aligned, which live as long as it and are zero in the beginning.
        look(unsafe { &*word })
    }
    #[cfg(not(target_arch = "x86_64"))]
    INSIDE.with(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        assert_eq!(with(Cell::get), 0);
        with(|word| word.set(7));
        let theirs = std::thread::spawn(|| {
            let before = with(Cell::get);
            with(|word| word.set(8));
            before
        });
        assert_eq!(theirs.join().unwrap(), 0);
        assert_eq!(with(Cell::get), 7);
        with(|word| word.set(0));
    }
}
