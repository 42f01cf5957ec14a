//! A driver that lacks functions. The simulator is one library with every name; a copy of it whose
//! names are defaced answers a look-up of them as a driver from before their time does.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;

use crate::artefacts::artefacts;

/// A directory with copies of the simulated libraries, the driver's without the given names.
#[must_use]
pub fn driver_without(names: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libcuda.so.1");
    let source = artefacts().sim.join("libcuda.so.1");
    let mut bytes = fs::read(&source).unwrap();
    let (offset, size) = dynamic_strings(&source);
    for name in names {
        let text = &mut bytes[offset..offset + size];
        let entry = [b"\0", name.as_bytes(), b"\0"].concat();
        let at = text
            .windows(entry.len())
            .position(|window| window == entry)
            .unwrap_or_else(|| panic!("the simulator does not export {name}"));
        // Found by its hash no more under this name, and under no other.
        text[at + 1] = b'#';
    }
    fs::write(&library, bytes).unwrap();
    symlink("libcuda.so.1", dir.path().join("libcuda.so")).unwrap();
    fs::copy(
        artefacts().sim.join("libnvidia-ml.so.1"),
        dir.path().join("libnvidia-ml.so.1"),
    )
    .unwrap();
    dir
}

/// Where the section `.dynstr` lies in the file.
fn dynamic_strings(library: &std::path::Path) -> (usize, usize) {
    let output = Command::new("readelf")
        .arg("-SW")
        .arg(library)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.contains(" .dynstr "))
        .unwrap();
    let fields: Vec<&str> = line
        .split_whitespace()
        .skip_while(|field| *field != ".dynstr")
        .collect();
    let number = |index: usize| usize::from_str_radix(fields[index], 16).unwrap();
    (number(3), number(4))
}
