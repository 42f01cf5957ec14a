//! What an ELF file says of itself: enough to check a library without binutils.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, Sym};

/// A glibc version, as `GLIBC_2.17` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct GlibcVersion {
    /// Always 2 so far.
    pub major: u32,
    /// 17 in 2.17.
    pub minor: u32,
    /// 5 in 2.2.5.
    pub patch: u32,
}

impl GlibcVersion {
    /// Reads `GLIBC_2.17` or `GLIBC_2.2.5`; `None` for anything else, `GLIBC_PRIVATE` included.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        let mut next = || parts.next().transpose().ok();
        let (major, minor, patch) = (next()??, next()??, next()?.unwrap_or(0));
        Some(Self {
            major,
            minor,
            patch,
        })
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// What `readelf -d` and `nm -D` would tell of a shared object.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    /// DT_SONAME.
    pub soname: Option<String>,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// Defined dynamic symbols, sorted.
    pub exports: Vec<String>,
    /// Undefined dynamic symbols, sorted.
    pub imports: Vec<String>,
    /// Every version that the file requires of another (`GLIBC_2.17`, `GCC_3.0`), sorted.
    pub versions: Vec<String>,
    /// DF_STATIC_TLS: the library cannot be opened once the static block is spent.
    pub static_tls: bool,
    /// DF_1_NODELETE: the library stays mapped after dlclose.
    pub nodelete: bool,
    /// The size of the file in bytes.
    pub size: u64,
}

/// Reads what the dynamic section and symbol table of `path` say.
///
/// # Errors
/// When the file cannot be read or is no 64-bit ELF file.
pub fn report(path: &Path) -> Result<Report> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{} is no 64-bit ELF file", path.display()))
}

/// The newest glibc version that `path` requires, `2.0` when it requires none.
///
/// # Errors
/// As [`report`], and when it requires `GLIBC_PRIVATE`, which holds for one glibc only.
pub fn glibc_floor(path: &Path) -> Result<GlibcVersion> {
    let report = report(path)?;
    if report
        .versions
        .iter()
        .any(|version| version == "GLIBC_PRIVATE")
    {
        bail!("{} requires GLIBC_PRIVATE", path.display());
    }
    Ok(report.glibc_floor())
}

impl Report {
    /// The newest glibc version among [`Report::versions`].
    #[must_use]
    pub fn glibc_floor(&self) -> GlibcVersion {
        let least = GlibcVersion {
            major: 2,
            minor: 0,
            patch: 0,
        };
        self.versions
            .iter()
            .filter_map(|v| GlibcVersion::parse(v))
            .max()
            .unwrap_or(least)
    }
}

fn parse(bytes: &[u8]) -> Result<Report> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let mut report = Report {
        size: u64::try_from(bytes.len())?,
        ..Report::default()
    };
    read_dynamic(&file, &mut report)?;
    read_symbols(&file, &mut report)?;
    read_versions(&file, &mut report)?;
    Ok(report)
}

fn read_dynamic(file: &ElfFile64<'_, Endianness>, report: &mut Report) -> Result<()> {
    let endian = file.endian();
    let (header, data) = (file.elf_header(), file.data());
    let sections = header.sections(endian, data)?;
    let Some((entries, strings)) = sections.dynamic(endian, data)? else {
        bail!("it has no dynamic section");
    };
    let strings = sections.strings(endian, data, strings)?;
    let text = |entry: &elf::Dyn64<Endianness>| -> Result<String> {
        let name = entry.string(endian, strings)?;
        Ok(String::from_utf8_lossy(name).into_owned())
    };
    for entry in entries {
        let value = entry.d_val(endian);
        match entry.tag32(endian) {
            Some(elf::DT_NEEDED) => report.needed.push(text(entry)?),
            Some(elf::DT_SONAME) => report.soname = Some(text(entry)?),
            Some(elf::DT_FLAGS) => report.static_tls = value & u64::from(elf::DF_STATIC_TLS) != 0,
            Some(elf::DT_FLAGS_1) => report.nodelete = value & u64::from(elf::DF_1_NODELETE) != 0,
            _ => {}
        }
    }
    Ok(())
}

fn read_symbols(file: &ElfFile64<'_, Endianness>, report: &mut Report) -> Result<()> {
    let endian = file.endian();
    let table = file.elf_dynamic_symbol_table();
    for symbol in table.iter() {
        let name = String::from_utf8_lossy(symbol.name(endian, table.strings())?).into_owned();
        if name.is_empty() {
            continue;
        }
        if symbol.is_undefined(endian) {
            report.imports.push(name);
        } else {
            report.exports.push(name);
        }
    }
    report.exports.sort();
    report.imports.sort();
    Ok(())
}

fn read_versions(file: &ElfFile64<'_, Endianness>, report: &mut Report) -> Result<()> {
    let endian = file.endian();
    let (header, data) = (file.elf_header(), file.data());
    let sections = header.sections(endian, data)?;
    let Some((mut libraries, strings)) = sections.gnu_verneed(endian, data)? else {
        return Ok(());
    };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = version.name(endian, strings)?;
            report
                .versions
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
    report.versions.sort();
    report.versions.dedup();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_by_number_not_by_letter() {
        let version = |text| GlibcVersion::parse(text).unwrap();
        assert!(version("GLIBC_2.2.5") < version("GLIBC_2.17"));
        assert!(version("GLIBC_2.34") > version("GLIBC_2.4"));
        assert_eq!(version("GLIBC_2.2.5").to_string(), "2.2.5");
        assert_eq!(version("GLIBC_2.17").to_string(), "2.17");
        assert_eq!(GlibcVersion::parse("GLIBC_PRIVATE"), None);
        assert_eq!(GlibcVersion::parse("GCC_3.0"), None);
    }

    #[test]
    fn this_test_binary_needs_libc_and_says_so() {
        let report = report(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            report.needed.iter().any(|name| name.starts_with("libc.so")),
            "{report:?}"
        );
        assert!(
            report.glibc_floor()
                > GlibcVersion {
                    major: 2,
                    minor: 0,
                    patch: 0
                }
        );
        assert!(report.imports.iter().any(|name| name == "malloc"));
    }
}
