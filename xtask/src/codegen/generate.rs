//! The whole of `cargo xtask codegen`: headers in, files out.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use syn::{Expr, ImplItem, Item, Lit, Type, parse_quote};

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
        files: &[".*/cuda(|GL|EGL|VDPAU|Profiler)\\.h", ".*wrapper\\.h"],
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
        output("result_names.rs", result_names(&header)?),
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
    let mut text = String::from(
        "use super::{Symbol, symbol};\n\n/// Sorted by name.\n#[rustfmt::skip]\npub static SYMBOLS: &[Symbol] = &[\n",
    );
    for name in header.functions.keys() {
        text += &format!("    symbol({name:?}, {:?}),\n", base_name(name));
    }
    Body::Text(text + "];\n")
}

/// The codes of `CUresult`, by code.
fn result_names(header: &Header) -> Result<Body> {
    let mut names = BTreeMap::new();
    for (name, value) in enum_values(&header.types, "CUresult") {
        // Where the header gives one code two names, the first is the one that the driver tells.
        names.entry(value).or_insert(name);
    }
    ensure!(names.contains_key(&0), "CUresult has no CUDA_SUCCESS");
    let mut text = String::from(
        "use core::ffi::CStr;\n\n/// Code and name, sorted by code.\n#[rustfmt::skip]\npub static RESULT_NAMES: &[(u32, &CStr)] = &[\n",
    );
    for (value, name) in names {
        text += &format!("    ({value}, c{name:?}),\n");
    }
    Ok(Body::Text(text + "];\n"))
}

/// Names and values of a newtype enum's constants, `pub const NAME: Enum = Enum(1);`, in the header's order.
fn enum_values(items: &[Item], name: &str) -> Vec<(String, u32)> {
    let of_enum = items.iter().filter_map(|item| match item {
        Item::Impl(item) => match &*item.self_ty {
            Type::Path(path) if path.path.is_ident(name) => Some(&item.items),
            _ => None,
        },
        _ => None,
    });
    let constant = |item: &ImplItem| {
        let ImplItem::Const(item) = item else {
            return None;
        };
        let Expr::Call(call) = &item.expr else {
            return None;
        };
        let Some(Expr::Lit(literal)) = call.args.first() else {
            return None;
        };
        let Lit::Int(value) = &literal.lit else {
            return None;
        };
        Some((item.ident.to_string(), value.base10_parse().ok()?))
    };
    of_enum.flatten().filter_map(constant).collect()
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
