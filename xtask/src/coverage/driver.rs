//! Asks a real driver library everything that the tables claim of it.
//!
//! Look-ups need neither a GPU nor `cuInit`, so the library of Debian's `libcuda1` package, unpacked, is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_void};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use cuda_headers::driver::{CUdriverProcAddressQueryResult, CUresult, cuuint64_t};
use cuda_headers::fns;
use cuda_headers::proc_address::{Answer, lookup_as_of};
use cuda_headers::symbols::{self, SYMBOLS};
use libloading::Library;

use crate::elf;

/// Versions below this are asked for, the round ones and those just before: CUDA's are multiples of 10, and the newest
/// header's is 13050.
const VERSIONS: u32 = 14_000;

/// Names that exist on Tegra alone.
const TEGRA: [&str; 1] = ["cuEventCreateFromEGLSync"];

/// Exported by NVIDIA's libraries, declared by no public header, and not known to `cuGetProcAddress`.
const UNDOCUMENTED: [&str; 3] = ["cuEGLApiInit", "cuMemGetAttribute", "cuMemGetAttribute_v2"];

/// What a look-up in the driver came to: the symbol and the status.
type Found = (Option<String>, CUdriverProcAddressQueryResult);

/// Compares the symbol list and every answer of `cuGetProcAddress`; prints how many agreed.
///
/// # Errors
///
/// The library cannot be loaded, or differs from the tables.
pub(super) fn compare(path: &Path) -> Result<()> {
    let driver = Driver::open(path)?;
    let mut problems = driver.symbol_problems(path)?;
    let mut compared = 0_u32;
    let bases: BTreeSet<&str> = SYMBOLS.iter().map(|symbol| symbol.base).collect();
    let full_names = SYMBOLS.iter().map(|symbol| symbol.name);
    let unknown = ["", "cuNoSuchFunction"].into_iter().chain(UNDOCUMENTED);
    let names: BTreeSet<&str> = full_names.chain(bases).chain(unknown).collect();
    for name in names.into_iter().filter(|name| !TEGRA.contains(name)) {
        let c_name = CString::new(name)?;
        for flags in [0, 1, 2] {
            let mut differences = 0;
            let mut first = None;
            for version in (0..VERSIONS).filter(|version| matches!(version % 10, 0 | 9)) {
                let expected = expected(lookup_as_of(driver.version, name, version, flags == 2));
                let found = driver.ask(&c_name, version, flags)?;
                compared += 1;
                if found != expected {
                    differences += 1;
                    first.get_or_insert_with(|| {
                        format!("at {version}: {found:?}, not {expected:?}")
                    });
                }
            }
            if let Some(first) = first {
                problems.push(format!(
                    "{name}, flags {flags}: {differences} answers differ, {first}"
                ));
            }
        }
    }
    println!(
        "{}: CUDA {}, {compared} answers of cuGetProcAddress compared",
        path.display(),
        driver.version
    );
    if !problems.is_empty() {
        bail!(
            "{} differs from the tables:\n  {}",
            path.display(),
            problems.join("\n  ")
        );
    }
    Ok(())
}

fn expected(answer: Answer) -> Found {
    use CUdriverProcAddressQueryResult as Status;
    match answer {
        Answer::Symbol(name) => (Some(name.to_owned()), Status::CU_GET_PROC_ADDRESS_SUCCESS),
        Answer::NotFound => (None, Status::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
        Answer::VersionTooLow => (None, Status::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
    }
}

struct Driver {
    version: u32,
    proc_address: fns::cuGetProcAddress_v2,
    /// Names by address.
    names: BTreeMap<usize, String>,
    /// Keeps the addresses valid.
    _library: Library,
}

impl Driver {
    fn open(path: &Path) -> Result<Self> {
        // SAFETY: the library's constructors are NVIDIA's; they read the environment and start nothing.
        let library = unsafe { Library::new(path) }
            .with_context(|| format!("cannot load {}", path.display()))?;
        let mut names = BTreeMap::new();
        for symbol in SYMBOLS {
            // SAFETY: the address is only compared.
            let address = unsafe { library.get::<*const c_void>(symbol.name.as_bytes()) };
            if let Ok(address) = address {
                let other = names.insert((*address).addr(), symbol.name.to_owned());
                ensure!(
                    other.is_none(),
                    "{} and {other:?} share an address",
                    symbol.name
                );
            }
        }
        // SAFETY: the signature is the header's.
        let get_version = unsafe { library.get::<fns::cuDriverGetVersion>(b"cuDriverGetVersion")? };
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { get_version(&raw mut version) }
            .ok()
            .map_err(|code| anyhow::anyhow!("cuDriverGetVersion failed: {code:?}"))?;
        // SAFETY: the signature is the header's.
        let proc_address =
            unsafe { *library.get::<fns::cuGetProcAddress_v2>(b"cuGetProcAddress_v2")? };
        Ok(Self {
            version: u32::try_from(version)?,
            proc_address,
            names,
            _library: library,
        })
    }

    fn ask(&self, name: &CString, version: u32, flags: cuuint64_t) -> Result<Found> {
        let mut address: *mut c_void = std::ptr::null_mut();
        let mut status = CUdriverProcAddressQueryResult(u32::MAX);
        let symbol: *const c_char = name.as_ptr();
        let version = i32::try_from(version)?;
        // SAFETY: the name ends in NUL and both places are live; the library is loaded as long as `self`.
        let result = unsafe {
            (self.proc_address)(symbol, &raw mut address, version, flags, &raw mut status)
        };
        ensure!(
            result == CUresult::CUDA_SUCCESS,
            "cuGetProcAddress_v2({name:?}) failed: {result:?}"
        );
        if address.is_null() {
            return Ok((None, status));
        }
        let name = self.names.get(&address.addr());
        let name =
            name.with_context(|| format!("{name:?}: the address is no exported symbol's"))?;
        Ok((Some(name.clone()), status))
    }

    /// The library must export what the header had by its version, and nothing else.
    fn symbol_problems(&self, path: &Path) -> Result<Vec<String>> {
        let exports: BTreeSet<String> = elf::report(path)?.exports.into_iter().collect();
        let mut problems = Vec::new();
        for name in exports.iter().filter(|name| super::is_driver_name(name)) {
            if symbols::find(name).is_none() && !UNDOCUMENTED.contains(&name.as_str()) {
                problems.push(format!("exports {name}, which is no symbol here"));
            }
        }
        for symbol in SYMBOLS
            .iter()
            .filter(|symbol| !TEGRA.contains(&symbol.name))
        {
            let due = symbol.since().is_some_and(|since| since <= self.version);
            if due != exports.contains(symbol.name) {
                let what = if due { "lacks" } else { "already exports" };
                problems.push(format!(
                    "{what} {}, of version {:?}",
                    symbol.name,
                    symbol.since()
                ));
            }
        }
        Ok(problems)
    }
}
