//! The whole of `cargo xtask codegen`: headers in, files out.

use std::path::Path;

use anyhow::Result;
use syn::{Item, parse_quote};

use super::bind::{Input, bind};
use super::emit::{Body, Output, emit};
use super::sources::{CUDA, PROFILER, Sources};
use super::tidy_types::{Header, alias, tidy};
use super::{nvml, proc_address};

pub(super) fn run(root: &Path, check: bool) -> Result<()> {
    let sources = Sources::fetch(&root.join("target"))?;
    let libclang = sources.libclang()?;
    // SAFETY: this program has started no thread yet.
    unsafe { std::env::set_var("LIBCLANG_PATH", libclang) };
    let input = Input {
        wrapper: include_str!("driver.h"),
        include: vec![sources.include(CUDA)?, sources.include(PROFILER)?],
        files: &[".*/cuda(|GL|EGL|VDPAU|Profiler)\\.h", "wrapper\\.h"],
        types: &["PFN_cu.*"],
    };
    let mut header = tidy(bind(&sources, &input)?);
    let typedefs = proc_address::take_typedefs(&mut header.types);
    let from = format!("{CUDA}, {PROFILER}");
    let output = |name, body| Output {
        name,
        from: from.clone(),
        body,
    };
    let mut outputs = vec![
        output("fns.rs", fns(&header)),
        output("symbols.rs", symbols(&header)),
        output(
            "proc_address.rs",
            proc_address::generate(&header, &typedefs)?,
        ),
        output("driver.rs", Body::Items(header.types)),
    ];
    outputs.push(nvml::generate(&sources)?);
    emit(&root.join("cuda-headers/src/generated"), outputs, check)
}

fn fns(header: &Header) -> Body {
    let mut items: Vec<Item> = vec![parse_quote! { use super::driver::*; }];
    items.extend(header.functions.values().map(alias));
    Body::Items(items)
}

fn symbols(header: &Header) -> Body {
    let rows = header.functions.keys().map(|name| -> syn::Expr {
        let base = base_name(name);
        parse_quote! { symbol(#name, #base) }
    });
    Body::Items(vec![
        parse_quote! { use super::{Symbol, symbol}; },
        parse_quote! {
            /// Sorted by name.
            pub static SYMBOLS: &[Symbol] = &[#(#rows),*];
        },
    ])
}

/// The name without `_ptsz`, `_ptds` and `_vN`: what `cuGetProcAddress` is asked for.
pub(super) fn base_name(symbol: &str) -> &str {
    let name = symbol
        .strip_suffix("_ptsz")
        .or_else(|| symbol.strip_suffix("_ptds"))
        .unwrap_or(symbol);
    match name.rsplit_once("_v") {
        Some((base, digits))
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}
