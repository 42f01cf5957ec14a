//! A library for 32-bit programs that has nothing in it.
//!
//! `/etc/ld.so.preload` is read by every program of a container. A 32-bit one would print a line at each start that the library
//! cannot be loaded. Under its own `$LIB` it finds this: an ELF file with a dynamic section, no symbol and no code. No segment of it is
//! executable, so that it may lie on a file system that is mounted `noexec`, as `/run` often is.

/// The machine of an ELF file's header, with the flags that belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    machine: u16,
    flags: u32,
}

/// The 32-bit programs that an x86-64 kernel runs.
pub(super) const I386: Machine = Machine {
    machine: 3,
    flags: 0,
};
/// Those that an AArch64 kernel runs; EABI version 5.
pub(super) const ARM: Machine = Machine {
    machine: 40,
    flags: 0x0500_0000,
};

const HEADER: u32 = 52;
const PROGRAM_HEADER: u32 = 32;
const SYMBOL: u32 = 16;
/// Pages are no larger wherever 32-bit programs run.
const ALIGN: u32 = 0x1_0000;
/// Readable and writable: the loader writes addresses into the dynamic section.
const READ_WRITE: u32 = 4 + 2;

/// The file.
pub(super) fn library(of: Machine) -> Vec<u8> {
    let dynamic = HEADER + 3 * PROGRAM_HEADER;
    let entries = 6;
    let symbols = dynamic + entries * 8;
    let hash = symbols + SYMBOL;
    let strings = hash + 4 * 4;
    let all = strings + 1;

    let mut file = Vec::new();
    // Class 32, little-endian, version 1, System V.
    file.extend_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    // A shared object; its machine; version 1, no entry point, program headers behind this one, no sections, flags.
    halves(&mut file, &[3, of.machine]);
    words(&mut file, &[1, 0, HEADER, 0, of.flags]);
    // Sizes of the two kinds of header, and that there are three of the one kind.
    halves(&mut file, &[52, 32, 3, 40, 0, 0]);
    // PT_LOAD, PT_DYNAMIC, PT_GNU_STACK: type, offset, address twice, size in the file and in memory, flags, alignment.
    words(&mut file, &[1, 0, 0, 0, all, all, READ_WRITE, ALIGN]);
    let size = entries * 8;
    words(
        &mut file,
        &[2, dynamic, dynamic, dynamic, size, size, READ_WRITE, 4],
    );
    // Without this one the loader would make the program's stack executable.
    words(&mut file, &[0x6474_e551, 0, 0, 0, 0, 0, READ_WRITE, 16]);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL.
    words(&mut file, &[4, hash, 5, strings, 6, symbols]);
    words(&mut file, &[10, 1, 11, SYMBOL, 0, 0]);
    // The symbol that every table begins with; one bucket, one chain, both empty; no string.
    words(&mut file, &[0; 4]);
    words(&mut file, &[1, 1, 0, 0]);
    file.push(0);
    file
}

fn words(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn halves(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_as_long_as_it_says() {
        for machine in [I386, ARM] {
            let file = library(machine);
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            assert_eq!(word(52 + 16) as usize, file.len(), "size of the segment");
            assert_eq!(word(52 + 32), 2);
            assert_eq!(word(36), machine.flags);
            assert_eq!(u16::from_le_bytes([file[18], file[19]]), machine.machine);
        }
    }

    /// As binutils read it: no complaint, nothing executable, no symbol.
    #[test]
    fn binutils_find_nothing_wrong_with_it() {
        let folder = tempfile::tempdir().unwrap();
        for (machine, name) in [(I386, "Intel 80386"), (ARM, "ARM")] {
            let path = folder.path().join("empty.so");
            std::fs::write(&path, library(machine)).unwrap();
            let read = Command::new("readelf")
                .env("LC_ALL", "C")
                .args([
                    "--file-header",
                    "--segments",
                    "--dynamic",
                    "--symbols",
                    "--use-dynamic",
                ])
                .arg(&path)
                .output();
            let Ok(read) = read else {
                return println!("skipped: no readelf");
            };
            let text = String::from_utf8_lossy(&read.stdout);
            assert_eq!(String::from_utf8_lossy(&read.stderr), "", "{text}");
            assert!(
                text.contains(name) && text.contains("DYN (Shared object file)"),
                "{text}"
            );
            assert!(
                text.contains("(SYMTAB)") && !text.contains("RWE") && !text.contains("R E"),
                "{text}"
            );
        }
    }
}
