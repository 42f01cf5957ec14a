use super::*;
use crate::module::function::Builtin;

const TARGET: Target = Target {
    sm: 90,
    driver: 13000,
};

fn with(body: &str) -> Result<Image, ImageError> {
    parse(
        &format!(".version 7.0\n.target sm_75\n.address_size 64\n{body}"),
        TARGET,
    )
}

#[test]
fn parameters_lie_at_their_alignment() {
    let image = with(
        ".visible .entry k(.param .u8 a, .param .align 8 .b8 s[24], .param .u64 .ptr .global \
         .align 4 p, .param .u32 n)\n.maxntid 256, 1, 1\n.minnctapersm 2 { ret; }",
    )
    .unwrap();
    let [kernel] = &image.functions[..] else {
        panic!("one kernel: {image:?}")
    };
    let layout: Vec<(usize, usize)> = kernel.params.iter().map(|p| (p.offset, p.size)).collect();
    assert_eq!(layout, [(0, 1), (8, 24), (32, 8), (40, 4)]);
    assert_eq!((kernel.name.as_str(), kernel.max_threads), ("k", 256));
}

#[test]
fn memory_declared_in_a_body_is_summed() {
    let image = with(
        ".entry k() { .shared .align 4 .b8 a[1000]; { .shared .align 16 .b8 b[8]; } \
         .local .align 8 .b8 d[32]; ret; }",
    )
    .unwrap();
    assert_eq!(
        (image.functions[0].static_shared, image.functions[0].local),
        (1016, 32)
    );
}

#[test]
fn variables_and_their_values() {
    let image = with(
        ".visible .global .align 8 .u64 g[10];\n.const .u32 c = 7;\n\
         .global .f32 f = 0f3F800000;\n.global .b8 t[3] = {1, 2, 0x3};\n.global .s32 n = -1;\n\
         .extern .global .u32 away;\n.global .u64 to = generic(g);\n.global .b8 open[] = {1, 2};\n.visible .global .attribute(.managed) .align 4 .u32 m;",
    )
    .unwrap();
    let found: Vec<(&str, usize, &[u8])> = image
        .globals
        .iter()
        .map(|g| (g.name.as_str(), g.size, g.init.as_slice()))
        .collect();
    assert_eq!(
        found,
        [
            ("g", 80, &[][..]),
            ("c", 4, &[7, 0, 0, 0]),
            ("f", 4, &[0, 0, 0x80, 0x3f]),
            ("t", 3, &[1, 2, 3]),
            ("n", 4, &[0xff; 4]),
            ("to", 8, &[0; 8]),
            ("open", 2, &[1, 2]),
            ("m", 4, &[]),
        ]
    );
    assert!(image.globals[7].managed && image.globals[1].constant);
}

#[test]
fn functions_and_declarations_are_no_kernels() {
    let image = with(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a);\n\
         .func helper() { .reg .b32 %r; { bra X; } X: ret; }\n.entry later();\n.entry k() { ret; }",
    )
    .unwrap();
    assert_eq!(image.functions.len(), 1);
}

#[test]
fn builtins_need_the_mark() {
    let kernel = ".entry sim_work(.param .u64 n) { ret; }";
    assert_eq!(with(kernel).unwrap().functions[0].builtin, None);
    let marked = with(&format!("// gpu-sim builtins\n{kernel}")).unwrap();
    assert_eq!(marked.functions[0].builtin, Some(Builtin::Work));
}

#[test]
fn the_shipped_kernels_are_all_understood() {
    let image = parse(include_str!("../../../../kernels.ptx"), TARGET).unwrap();
    assert_eq!(image.functions.len(), 7);
    assert!(
        image.functions.iter().all(|f| f.builtin.is_some()),
        "{image:?}"
    );
}

#[test]
fn what_is_no_ptx_is_refused() {
    let refused = |text| parse(text, TARGET).unwrap_err();
    assert!(matches!(refused("hello"), ImageError::Invalid(_)));
    assert!(matches!(
        with(".entry k() { ret;"),
        Err(ImageError::InvalidPtx(_))
    ));
    assert!(matches!(
        with(".entry k( { ret; }"),
        Err(ImageError::InvalidPtx(_))
    ));
    assert!(matches!(with("}"), Err(ImageError::InvalidPtx(_))));
    assert!(matches!(
        refused(".version 9.1\n.target sm_90\n"),
        ImageError::UnsupportedPtx(_)
    ));
    assert!(matches!(
        refused(".version 8.0\n.target sm_100\n"),
        ImageError::InvalidPtx(_)
    ));
}

#[test]
fn drivers_know_their_isa() {
    for (driver, isa) in [
        (10020, 65),
        (11000, 70),
        (11040, 74),
        (11080, 78),
        (12000, 80),
        (12040, 84),
        (12050, 85),
        (12060, 85),
        (12080, 87),
        (12090, 88),
        (13000, 90),
        (13050, 95),
    ] {
        assert_eq!(isa_of_driver(driver), isa, "{driver}");
    }
}
