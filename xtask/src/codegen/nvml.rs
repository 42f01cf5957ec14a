//! `nvml.rs`: NVML's types, a signature for every function, and the sorted list of their names.

use anyhow::Result;
use syn::{Item, parse_quote};

use super::bind::{Input, bind};
use super::emit::{Body, Output};
use super::sources::{NVML, Sources};
use super::tidy_types::{alias, tidy};

pub(super) fn generate(sources: &Sources) -> Result<Output> {
    let input = Input {
        wrapper: include_str!("nvml.h"),
        include: vec![sources.include(NVML)?],
        files: &[".*/nvml\\.h", ".*wrapper\\.h"],
        types: &[],
    };
    let header = tidy(bind(sources, &input)?);
    let mut items = header.types;
    let aliases: Vec<Item> = header.functions.values().map(alias).collect();
    let names = header.functions.keys();
    items.push(parse_quote! {
        pub mod fns {
            use super::*;
            #(#aliases)*
        }
    });
    items.push(parse_quote! { pub static NAMES: &[&str] = &[#(#names),*]; });
    Ok(Output {
        name: "nvml.rs",
        from: NVML.to_string(),
        body: Body::Items(items),
    })
}
