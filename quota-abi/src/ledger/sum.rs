//! What all words of a ledger say together: the one loop on the way of an allocation whose length grows with the processes.

use super::word::Word;
use crate::sync::{AtomicU64, Ordering};

/// Units held, and the lower fields as they are. Each word is read once, after whatever fence the caller has made.
#[inline]
pub(super) fn sum(words: &[AtomicU64]) -> (u64, u64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        let (all, held) = pairs::sum(words);
        // What is left of the words without what is held: the lower halves, and no more than 2^41.
        let lower = all.wrapping_sub(held << 32);
        if lower < super::word::ASKING {
            // Too little for any mark or count in the bits above what is asked for, or for the mark of who is alone.
            return (held, lower);
        }
    }
    one_by_one(words)
}

fn one_by_one(words: &[AtomicU64]) -> (u64, u64) {
    words.iter().fold((0, 0), |(held, lower), word| {
        let word = Word(word.load(Ordering::Relaxed));
        (held + word.held(), lower + word.lower())
    })
}

/// Two words at a time, which the compiler may not make of atomic loads.
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod pairs {
    use super::{AtomicU64, Ordering};

    /// Words in one turn of the loop: a cache line.
    const AT_A_TIME: usize = 8;

    /// Sum of the words, modulo 2^64, and of their upper halves.
    pub(super) fn sum(words: &[AtomicU64]) -> (u64, u64) {
        // Aligned pairs are read at once by every processor with AVX, and as two words at the very least by any other.
        let odd = words.as_ptr().addr() / size_of::<AtomicU64>() % 2;
        let (first, words) = words.split_at(odd.min(words.len()));
        let turns = words.len() / AT_A_TIME;
        let (even, last) = words.split_at(turns * AT_A_TIME);
        let (mut all, mut held) = if turns > 0 {
            lines(even, turns)
        } else {
            (0, 0)
        };
        for word in first.iter().chain(last) {
            let word = word.load(Ordering::Relaxed);
            all = u64::wrapping_add(all, word);
            held += word >> 32;
        }
        (all, held)
    }

    fn lines(words: &[AtomicU64], turns: usize) -> (u64, u64) {
        debug_assert!(turns > 0 && words.len() == turns * AT_A_TIME);
        let (all, held): (u64, u64);
        // SAFETY: reads `turns` times 64 bytes from words that live and are aligned to 16, as relaxed atomic loads do; writes
        // nothing but registers.
        unsafe {
            core::arch::asm!(
                "pxor {all}, {all}",
                "pxor {held}, {held}",
                "2:",
                "movdqa {a}, [{at}]",
                "movdqa {b}, [{at} + 16]",
                "movdqa {c}, [{at} + 32]",
                "movdqa {d}, [{at} + 48]",
                "paddq {all}, {a}",
                "psrlq {a}, 32",
                "paddq {all}, {b}",
                "psrlq {b}, 32",
                "paddq {all}, {c}",
                "psrlq {c}, 32",
                "paddq {all}, {d}",
                "psrlq {d}, 32",
                "paddq {a}, {b}",
                "paddq {c}, {d}",
                "paddq {held}, {a}",
                "paddq {held}, {c}",
                "add {at}, 64",
                "dec {turns}",
                "jnz 2b",
                "pshufd {a}, {all}, 0x4e",
                "pshufd {b}, {held}, 0x4e",
                "paddq {all}, {a}",
                "paddq {held}, {b}",
                "movq {all_out}, {all}",
                "movq {held_out}, {held}",
                at = inout(reg) words.as_ptr() => _,
                turns = inout(reg) turns => _,
                all = out(xmm_reg) _,
                held = out(xmm_reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                all_out = lateout(reg) all,
                held_out = lateout(reg) held,
                options(readonly, nostack)
            );
        }
        (all, held)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_one_by_one() {
        let mut random = 7_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 16 ^ random << 16
        };
        for round in 0..4_000_usize {
            let words: Vec<_> = (0..round % 67)
                .map(|index| {
                    let word = next();
                    AtomicU64::new(match round % 4 {
                        // Held alone; a little asked for; whatever there may be; the mark of who is alone.
                        0 => word & !0xffff_ffff,
                        1 => word & !0xff_ffff_f000,
                        2 => word,
                        _ if index == 0 => Word::ALONE.0,
                        _ => word & !0xffff_ffff,
                    })
                })
                .collect();
            for from in 0..words.len().min(3) {
                let words = words.get(from..).unwrap();
                assert_eq!(sum(words), one_by_one(words), "{round} {from}");
            }
        }
        assert_eq!(sum(&[]), (0, 0));
        let full = [const { AtomicU64::new(u64::MAX) }; 512];
        assert_eq!(sum(&full), one_by_one(&full));
    }
}
