//! Turns bindgen's output into what `cuda-headers` promises: enums under the names that people write, and handles
//! that the compiler keeps apart.

use std::collections::{BTreeMap, BTreeSet};

use quote::{format_ident, quote};
use syn::visit_mut::VisitMut;
use syn::{
    Expr, ExprBinary, ForeignItem, ForeignItemFn, Ident, Item, ItemConst, Stmt, Type, UseTree,
    parse_quote,
};

/// A header, taken apart.
pub(super) struct Header {
    /// Types, constants and layout assertions.
    pub(super) types: Vec<Item>,
    /// Declared functions by name.
    pub(super) functions: BTreeMap<String, ForeignItemFn>,
}

/// Splits functions off, renames enums to their typedefs and makes handles newtypes.
pub(super) fn tidy(mut file: syn::File) -> Header {
    let renames = enum_renames(&file.items);
    Rename(&renames).visit_file_mut(&mut file);
    let opaque = opaque_structs(&file.items);
    let mut types = Vec::new();
    let mut functions = BTreeMap::new();
    for item in file.items {
        match item {
            Item::ForeignMod(block) => {
                for foreign in block.items {
                    if let ForeignItem::Fn(function) = foreign {
                        functions.insert(function.sig.ident.to_string(), function);
                    }
                }
            }
            Item::Use(item) if is_self_rename(&item.tree) => {}
            Item::Type(item) if is_handle(&item.ty, &opaque) => {
                types.extend(handle(&item.ident, &item.ty));
            }
            Item::Const(item) if item.ident == "_" => types.push(assertions(item)),
            other => types.push(other),
        }
    }
    Header { types, functions }
}

/// `typedef enum cudaError_enum {..} CUresult`: bindgen names the tag, people write the typedef.
fn enum_renames(items: &[Item]) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    for item in items {
        if let Item::Use(item) = item
            && let Some((tag, alias)) = renamed(&item.tree)
        {
            renames
                .entry(tag.to_string())
                .or_insert_with(|| alias.to_string());
        }
    }
    renames
}

/// The two names of `use self::tag as alias`.
fn renamed(tree: &UseTree) -> Option<(&Ident, &Ident)> {
    match tree {
        UseTree::Path(path) if path.ident == "self" => renamed(&path.tree),
        UseTree::Rename(rename) => Some((&rename.ident, &rename.rename)),
        _ => None,
    }
}

/// What a renamed enum's own `use` has become.
fn is_self_rename(tree: &UseTree) -> bool {
    renamed(tree).is_some_and(|(tag, alias)| tag == alias)
}

struct Rename<'a>(&'a BTreeMap<String, String>);

impl VisitMut for Rename<'_> {
    fn visit_ident_mut(&mut self, ident: &mut Ident) {
        if let Some(name) = self.0.get(&ident.to_string()) {
            *ident = Ident::new(name, ident.span());
        }
    }
}

/// Structs of which the header tells no more than the name.
fn opaque_structs(items: &[Item]) -> BTreeSet<String> {
    let opaque = |item: &Item| match item {
        Item::Struct(item) => item
            .fields
            .iter()
            .all(|field| field.ident.as_ref().is_some_and(|name| name == "_unused"))
            .then(|| item.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(opaque).collect()
}

fn is_handle(ty: &Type, opaque: &BTreeSet<String>) -> bool {
    let Type::Ptr(pointer) = ty else { return false };
    let Type::Path(path) = &*pointer.elem else {
        return false;
    };
    path.path
        .get_ident()
        .is_some_and(|name| opaque.contains(&name.to_string()))
}

fn handle(name: &Ident, ty: &Type) -> [Item; 2] {
    [
        parse_quote! {
            #[repr(transparent)]
            #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub struct #name(pub #ty);
        },
        parse_quote! {
            impl #name {
                pub const NULL: Self = Self(::core::ptr::null_mut());
                pub const fn is_null(self) -> bool { self.0.is_null() }
            }
        },
    ]
}

/// bindgen checks a layout by `["Size of X"][size_of::<X>() - 16]`, which fails to compile as an index or an
/// overflow. An `assert!` says the same in words that lints and readers understand.
fn assertions(mut item: ItemConst) -> Item {
    item.attrs.clear();
    if let Expr::Block(block) = &mut *item.expr {
        for statement in &mut block.block.stmts {
            if let Stmt::Expr(Expr::Index(index), _) = statement
                && let Expr::Binary(ExprBinary { left, right, .. }) = &*index.index
            {
                *statement = parse_quote! { assert!(#left == #right); };
            }
        }
    }
    Item::Const(item)
}

/// `pub type NAME = unsafe extern "C" fn(..) -> ..;`
pub(super) fn alias(function: &ForeignItemFn) -> Item {
    let name = format_ident!("{}", function.sig.ident);
    let inputs = &function.sig.inputs;
    let output = &function.sig.output;
    let variadic = function.sig.variadic.as_ref().map(|_| quote!(, ...));
    parse_quote! { pub type #name = unsafe extern "C" fn(#inputs #variadic) #output; }
}
