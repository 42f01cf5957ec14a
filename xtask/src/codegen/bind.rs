//! Runs bindgen and hands back a syntax tree.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::sources::Sources;

/// One run of bindgen.
pub(super) struct Input {
    /// A C file that includes the headers.
    pub(super) wrapper: &'static str,
    /// Where the headers are.
    pub(super) include: Vec<PathBuf>,
    /// Regular expressions of the header files whose declarations are wanted.
    pub(super) files: &'static [&'static str],
    /// The same of type names from elsewhere.
    pub(super) types: &'static [&'static str],
}

/// C headers that NVIDIA's include and that nothing is needed of.
const EMPTY_HEADERS: [&str; 4] = ["GL/gl.h", "EGL/egl.h", "EGL/eglext.h", "vdpau/vdpau.h"];

/// Binds the headers. C enums become newtypes: an unknown value from a newer driver must stay legal.
pub(super) fn bind(sources: &Sources, input: &Input) -> Result<syn::File> {
    let stubs = sources.scratch("stubs")?;
    for header in EMPTY_HEADERS {
        let path = stubs.join(header);
        fs::create_dir_all(path.parent().context("header without folder")?)?;
        fs::write(path, "")?;
    }
    let mut builder = bindgen::Builder::default()
        .header_contents("wrapper.h", input.wrapper)
        .use_core()
        .generate_comments(false)
        .default_enum_style(bindgen::EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .derive_debug(true)
        .derive_default(false)
        .formatter(bindgen::Formatter::None)
        .disable_header_comment()
        .clang_arg(format!("-I{}", stubs.display()))
        .clang_arg(format!("-I{}", builtin_headers()?))
        .clang_arg("-std=c11");
    for folder in &input.include {
        builder = builder.clang_arg(format!("-I{}", folder.display()));
    }
    for file in input.files {
        builder = builder.allowlist_file(file);
    }
    for name in input.types {
        builder = builder.allowlist_type(name);
    }
    let text = builder.generate().context("bindgen failed")?.to_string();
    syn::parse_file(&text).context("bindgen wrote something that does not parse")
}

/// The folder of `stddef.h` and the like: the libclang wheel brings none.
fn builtin_headers() -> Result<String> {
    let output = Command::new("gcc")
        .arg("-print-file-name=include")
        .output()
        .context("cannot start gcc, whose builtin headers libclang needs")?;
    ensure!(
        output.status.success(),
        "gcc -print-file-name=include failed"
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
