//! The `dlsym` that the process calls.
//!
//! # Safety
//! The C library finds the caller of `dlsym` by its return address, and `RTLD_NEXT` means "after the caller". So this
//! function leaves no frame: it asks [`super::look_up::answer`] and, if that has no answer, jumps to the real function with
//! the caller's registers and return address in place. `answer` saves nothing but what the calling convention obliges it
//! to, so the trampoline keeps the two arguments itself.

use core::arch::naked_asm;

use super::look_up::answer;
use super::real::REAL_DLSYM;

/// `dlsym(handle, name)`.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn dlsym() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rdx, [rsp + 24]", // the caller's return address
        "call {answer}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "cmp rax, {nothing}",
        "je 3f",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "mov rax, [rip + {real}]",
        "jmp rax",
        "3:",
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
        answer = sym answer,
        real = sym REAL_DLSYM,
        nothing = const super::look_up::NOTHING,
    );
}

/// `dlsym(handle, name)`.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn dlsym() {
    naked_asm!(
        ".cfi_startproc",
        "hint #34", // bti c
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "mov x29, sp",
        "mov x2, x30", // the caller's return address
        "bl {answer}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cmp x9, #{nothing}",
        "b.eq 3f",
        "cbz x9, 2f",
        "mov x0, x9",
        "ret",
        "2:",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "3:",
        "mov x0, #0",
        "ret",
        ".cfi_endproc",
        answer = sym answer,
        real = sym REAL_DLSYM,
        nothing = const super::look_up::NOTHING,
    );
}
