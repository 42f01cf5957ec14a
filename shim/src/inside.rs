//! What each thread has for itself, in one block: where on its stack its outermost hook is, and what it pays launches from.
//!
//! Every hook looks at it, and the compiler's way to a thread-local of a library is a call of `__tls_get_addr`, which looks for the
//! library's block by way of two tables. A TLS descriptor costs less than half of that where the block was there from the start, as
//! it is for a preloaded library, and works for one that is loaded late as well; `static TLS` would not. On aarch64 it is the compiler's
//! own way.

use core::cell::Cell;
use core::ffi::c_int;

use limiter::Thread;

/// One thread's own. All zero in the beginning. No destructor: libraries call the driver after a thread's destructors ran.
#[repr(C, align(64))]
pub(crate) struct Own {
    /// The address of the outermost hook's frame; 0 outside of hooks, and while one waits.
    pub(crate) hook: Cell<usize>,
    /// The capture mode that the thread had before [`crate::driver::relaxed`], plus 1; 0 outside of it.
    pub(crate) capture_mode: Cell<u32>,
    /// The cancel state that the thread had when it came to [`crate::guard::uncancelled`], plus 1; 0 outside of it.
    pub(crate) cancel: Cell<c_int>,
    /// GPU time that it has taken, and what it has launched.
    pub(crate) thread: Thread,
}

const _: () = assert!(align_of::<Own>() == 64 && !core::mem::needs_drop::<Own>());

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss.quota_shim_own,\"awT\",@nobits",
    ".balign 64",
    ".globl quota_shim_own",
    ".hidden quota_shim_own",
    ".type quota_shim_own,@object",
    ".size quota_shim_own, {size}",
    "quota_shim_own:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Own>(),
);

#[cfg(not(target_arch = "x86_64"))]
std::thread_local! {
    static OWN: Own = const {
        Own {
            hook: Cell::new(0),
            capture_mode: Cell::new(0),
            cancel: Cell::new(0),
            thread: Thread::new(),
        }
    };
}

/// Where the calling function's frame ends: what it calls lies below.
#[inline(always)]
pub(crate) fn here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let here;
        // SAFETY: reads a register.
        unsafe {
            core::arch::asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags));
        }
        here
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let frame = Cell::new(0_u8);
        (&raw const frame).addr()
    }
}

/// Hands what the calling thread has to `look`.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Own) -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        let own: *const Own;
        // SAFETY: the sequence that the ABI names for a descriptor, in the registers that it names; it leaves all others alone. Of C
        // libraries that have not done so, all have kept the general registers, and only vector registers were lost. The word at
        // `fs:0` is the address of its own thread's block. The answer is the same all along a thread, and no memory of ours is touched.
        unsafe {
            core::arch::asm!(
                "lea rax, [rip + quota_shim_own@TLSDESC]",
                "call [rax + quota_shim_own@TLSCALL]",
                "add rax, fs:[0]",
                out("rax") own,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(pure, nomem),
            );
        }
        // SAFETY: this thread's own, aligned, as long as it lives, and zero in the beginning, which `Own` may be: it is cells of
        // integers, and `a_new_thread_has_nothing` says that zero means what it ought to.
        look(unsafe { &*own })
    }
    #[cfg(not(target_arch = "x86_64"))]
    OWN.with(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let hook = || with(|own| own.hook.get());
        assert_eq!(hook(), 0);
        with(|own| own.hook.set(7));
        let theirs = std::thread::spawn(move || {
            let before = hook();
            with(|own| own.hook.set(8));
            before
        });
        assert_eq!(theirs.join().unwrap(), 0);
        assert_eq!(hook(), 7);
        with(|own| own.hook.set(0));
    }

    #[test]
    fn a_new_thread_has_nothing() {
        std::thread::spawn(|| {
            let new = format!("{:?}", Thread::new());
            with(|own| assert_eq!(format!("{:?}", own.thread), new));
        })
        .join()
        .unwrap();
    }
}
