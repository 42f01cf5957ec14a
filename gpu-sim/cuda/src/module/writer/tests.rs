use super::*;
use crate::module::image::{Target, bytes_at, parse};

const TARGET: Target = Target {
    sm: 90,
    driver: 13000,
};

#[test]
fn what_is_written_is_read_again() {
    let text = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .visible .global .align 8 .u64 g[10];\n.const .u32 c = 7;\n.global .f32 f = 0f3F800000;\n\
        .visible .entry k(.param .u8 a, .param .align 8 .b8 s[24], .param .u64 p) .maxntid 256, 1, 1\n\
        { .shared .align 4 .b8 sh[1000]; .local .align 4 .b8 lo[64]; ret; }\n\
        .entry k2() .reqntid 64, 2, 1 { ret; }";
    let image = parse(text.as_bytes(), TARGET).unwrap();
    let file = cubin(&image, 90);
    let again = parse(&file, TARGET).unwrap();
    for (old, new) in image.functions.iter().zip(&again.functions) {
        assert_eq!((&old.name, &old.params), (&new.name, &new.params));
        assert_eq!(
            (
                old.max_threads,
                old.required_block,
                old.static_shared,
                old.local
            ),
            (
                new.max_threads,
                new.required_block,
                new.static_shared,
                new.local
            )
        );
    }
    let variables = |image: &Image| -> Vec<(String, usize, bool)> {
        image
            .globals
            .iter()
            .map(|g| (g.name.clone(), g.size, g.constant))
            .collect()
    };
    assert_eq!(variables(&image), variables(&again));
    assert_eq!(again.globals[2].init, 1.0_f32.to_le_bytes());
    // SAFETY: a whole ELF file lies there, and tells its own length.
    let found = unsafe { bytes_at(file.as_ptr()) }.unwrap();
    assert_eq!(found.len(), file.len());
}

#[test]
fn builtins_stay_builtins() {
    let image = parse(include_bytes!("../../../../kernels.ptx"), TARGET).unwrap();
    let again = parse(&cubin(&image, 90), TARGET).unwrap();
    assert!(again.functions.iter().all(|f| f.builtin.is_some()));
}

#[test]
fn cut_or_foreign_files_are_refused() {
    let image = parse(include_bytes!("../../../../kernels.ptx"), TARGET).unwrap();
    let file = cubin(&image, 90);
    for length in (0..file.len()).step_by(97) {
        assert!(parse(&file[..length], TARGET).is_err(), "{length}");
    }
    let old = cubin(&image, 75);
    assert!(parse(&old, TARGET).is_err(), "another architecture");
}

#[test]
fn damaged_files_are_read_without_harm() {
    let image = parse(include_bytes!("../../../../kernels.ptx"), TARGET).unwrap();
    let file = cubin(&image, 90);
    let mut random = 1_u64;
    let mut next = |limit: usize| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        usize::try_from(random >> 33).unwrap() % limit
    };
    for _ in 0..1500 {
        let mut damaged = file.clone();
        for _ in 0..=next(4) {
            let at = next(damaged.len());
            damaged[at] = u8::try_from(next(256)).unwrap();
        }
        // Whatever it says, it says it without a panic.
        let _ = parse(&damaged, TARGET);
    }
    let text = include_bytes!("../../../../kernels.ptx");
    for _ in 0..700 {
        let mut damaged = text.to_vec();
        let at = next(damaged.len());
        damaged[at] = b"{}()[];,. x0"[next(12)];
        damaged.truncate(damaged.len() - next(500));
        let _ = parse(&damaged, TARGET);
    }
}
