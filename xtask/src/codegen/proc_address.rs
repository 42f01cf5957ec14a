//! `proc_address.rs`: which exported symbol `cuGetProcAddress` answers for a name and a CUDA version.
//!
//! The `*Typedefs.h` headers declare one function-pointer type per answer, `PFN_<base>_v<version>[_ptsz|_ptds]`. Its
//! signature says which of the exported symbols of that base name it belongs to. The per-thread forms have versions of
//! their own (most begin with CUDA 7.0), so a base name gets a row for each version at which either answer changes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use quote::ToTokens as _;
use syn::visit_mut::VisitMut;
use syn::{GenericArgument, Item, PathArguments, Type};

use super::emit::Body;
use super::generate::base_name;
use super::tidy_types::{Header, alias};

/// The function-pointer types, by name without `PFN_`.
pub(super) type Typedefs = BTreeMap<String, Type>;

/// Removes the `PFN_` types: they are data here, nothing that `cuda-headers` offers.
pub(super) fn take_typedefs(items: &mut Vec<Item>) -> Typedefs {
    let mut typedefs = Typedefs::new();
    items.retain(|item| match item {
        Item::Type(item) => match item.ident.to_string().strip_prefix("PFN_") {
            Some(name) => {
                typedefs.insert(name.to_owned(), (*item.ty).clone());
                false
            }
            None => true,
        },
        _ => true,
    });
    typedefs
}

/// The symbols of one base name, from the CUDA version on under which each is answered.
type Answers = BTreeMap<u32, String>;

/// A row of the table: what is answered from `version` on.
struct Row {
    version: u32,
    symbol: String,
    per_thread: Option<String>,
}

pub(super) fn generate(header: &Header, typedefs: &Typedefs) -> Result<Body> {
    let matcher = Matcher {
        header,
        aliases: Aliases::new(&header.types),
    };
    let bases: BTreeSet<&str> = header
        .functions
        .keys()
        .map(|symbol| base_name(symbol))
        .collect();
    let mut text = String::from(
        "use super::{ProcEntry, entry};\n\n/// Sorted by base name and version.\n#[rustfmt::skip]\npub static TABLE: &[ProcEntry] = &[\n",
    );
    for base in bases {
        let plain = matcher.answers(base, typedefs, false)?;
        let per_thread = matcher.answers(base, typedefs, true)?;
        for Row {
            version,
            symbol,
            per_thread,
        } in merge(&plain, &per_thread)
        {
            text += &format!("    entry({base:?}, {version}, {symbol:?}, {per_thread:?}),\n");
        }
    }
    Ok(Body::Text(text + "];\n"))
}

/// One row for each version at which either answer changes.
fn merge(plain: &Answers, per_thread: &Answers) -> Vec<Row> {
    let latest = |answers: &Answers, version| {
        answers
            .range(..=version)
            .next_back()
            .map(|(_, name)| name.clone())
    };
    let versions: BTreeSet<u32> = plain.keys().chain(per_thread.keys()).copied().collect();
    versions
        .into_iter()
        .filter_map(|version| {
            Some(Row {
                version,
                symbol: latest(plain, version)?,
                per_thread: latest(per_thread, version),
            })
        })
        .collect()
}

/// Which form of a symbol: plain, or for the per-thread default stream.
fn is_per_thread(name: &str) -> bool {
    name.ends_with("_ptsz") || name.ends_with("_ptds")
}

struct Matcher<'a> {
    header: &'a Header,
    aliases: Aliases,
}

impl Matcher<'_> {
    /// Gives each typedef of `base` the oldest symbol not yet given whose signature it has.
    fn answers(&self, base: &str, typedefs: &Typedefs, per_thread: bool) -> Result<Answers> {
        let mut declared: BTreeMap<u32, &Type> = BTreeMap::new();
        for (name, ty) in typedefs {
            if is_per_thread(name) == per_thread
                && let Some(version) = version_of(name, base)
            {
                declared.insert(version, ty);
            }
        }
        let mut symbols = self.symbols(base, per_thread).into_iter();
        let mut answers = Answers::new();
        for (version, ty) in declared {
            let wanted = self.aliases.signature(ty)?;
            let symbol = symbols
                .find(|symbol| {
                    self.signature(symbol)
                        .is_ok_and(|signature| signature == wanted)
                })
                .with_context(|| {
                    format!("no symbol of {base} has the signature of version {version}: {wanted}")
                })?;
            answers.insert(version, symbol);
        }
        Ok(answers)
    }

    /// The symbols of `base`, oldest first: the unversioned name, then `_v2`, `_v3`. A name may begin at `_v2`.
    fn symbols(&self, base: &str, per_thread: bool) -> Vec<String> {
        let mut symbols: Vec<(u32, &String)> = self
            .header
            .functions
            .keys()
            .filter(|symbol| base_name(symbol) == base && is_per_thread(symbol) == per_thread)
            .map(|symbol| (symbol_version(symbol), symbol))
            .collect();
        symbols.sort_unstable();
        symbols
            .into_iter()
            .map(|(_, symbol)| symbol.clone())
            .collect()
    }

    fn signature(&self, symbol: &str) -> Result<String> {
        let function = self
            .header
            .functions
            .get(symbol)
            .context("unknown symbol")?;
        match alias(function) {
            Item::Type(item) => self.aliases.signature(&item.ty),
            _ => bail!("not a function type"),
        }
    }
}

/// 7000 for `cuMemcpy_v7000_ptds` and base `cuMemcpy`.
fn version_of(typedef: &str, base: &str) -> Option<u32> {
    let version = typedef.strip_prefix(base)?.strip_prefix("_v")?;
    let version = version
        .strip_suffix("_ptsz")
        .or_else(|| version.strip_suffix("_ptds"))
        .unwrap_or(version);
    version.parse().ok()
}

/// 2 for `cuMemcpyDtoH_v2_ptds`, 1 without a number.
fn symbol_version(symbol: &str) -> u32 {
    let name = symbol
        .strip_suffix("_ptsz")
        .or_else(|| symbol.strip_suffix("_ptds"))
        .unwrap_or(symbol);
    name.rsplit_once("_v")
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(1)
}

/// `typedef`s, to compare signatures that spell one type in two ways.
struct Aliases(BTreeMap<String, Type>);

impl Aliases {
    fn new(items: &[Item]) -> Self {
        let pairs = items.iter().filter_map(|item| match item {
            Item::Type(item) => Some((item.ident.to_string(), (*item.ty).clone())),
            _ => None,
        });
        Self(pairs.collect())
    }

    /// The types of a function (or of an `Option` of one), as text, with all aliases resolved and names left out.
    fn signature(&self, ty: &Type) -> Result<String> {
        let mut function = match ty {
            Type::Path(path) => {
                let last = path.path.segments.last().context("empty path")?;
                let PathArguments::AngleBracketed(arguments) = &last.arguments else {
                    bail!("not a function pointer: {}", ty.to_token_stream())
                };
                match arguments.args.first() {
                    Some(GenericArgument::Type(Type::BareFn(function))) => function.clone(),
                    _ => bail!("not a function pointer: {}", ty.to_token_stream()),
                }
            }
            Type::BareFn(function) => function.clone(),
            _ => bail!("not a function pointer: {}", ty.to_token_stream()),
        };
        for input in &mut function.inputs {
            input.name = None;
        }
        let mut ty = Type::BareFn(function);
        Resolve(self).visit_type_mut(&mut ty);
        Ok(ty.to_token_stream().to_string())
    }
}

struct Resolve<'a>(&'a Aliases);

impl VisitMut for Resolve<'_> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        while let Type::Path(path) = &*ty
            && let Some(name) = path.path.get_ident()
            && let Some(target) = self.0.0.get(&name.to_string())
        {
            *ty = target.clone();
        }
        syn::visit_mut::visit_type_mut(self, ty);
    }
}
