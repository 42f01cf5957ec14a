//! What recorded clients ask of the driver and NVML is known here.

#![expect(clippy::expect_used, reason = "the helper of a test may fail it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cuda_headers::proc_address::{Answer, lookup};
use cuda_headers::{nvml, symbols};

/// Answered otherwise than with a symbol. `cuSubgrid*` is in no public header, and drivers 535 and 550 do not know it;
/// cuda-python asks for the log functions with a version before the header's first.
const UNRESOLVED: [(&str, u32, Answer); 9] = [
    ("", 0, Answer::NotFound),
    ("cuLogsCurrent", 12080, Answer::VersionTooLow),
    ("cuLogsDumpToFile", 12080, Answer::VersionTooLow),
    ("cuLogsDumpToMemory", 12080, Answer::VersionTooLow),
    ("cuLogsRegisterCallback", 12080, Answer::VersionTooLow),
    ("cuLogsUnregisterCallback", 12080, Answer::VersionTooLow),
    ("cuSubgridCreate", 13030, Answer::NotFound),
    ("cuSubgridWorkerGridCreate", 13030, Answer::NotFound),
    ("cuSubgridWorksetCreate", 13030, Answer::NotFound),
];

/// The lines of all recorded files with that ending.
fn lines(ending: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clients");
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("tests/data/clients is there") {
        let path = entry.expect("a readable folder").path();
        if path.to_string_lossy().ends_with(ending) {
            let text = fs::read_to_string(&path).expect("a readable file");
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    assert!(lines.len() > 20, "only {} lines in *{ending}", lines.len());
    lines
}

#[test]
fn recorded_look_ups_resolve() {
    for line in lines(".lookups.tsv") {
        let fields: Vec<&str> = line.split('\t').collect();
        let (name, version) = (fields[0], fields[1].parse().expect("a version"));
        let per_thread = fields[2].parse::<u64>().expect("flags") & 2 != 0;
        let answer = lookup(name, version, per_thread);
        let unresolved = UNRESOLVED
            .iter()
            .find(|row| (row.0, row.1) == (name, version));
        match unresolved {
            Some((_, _, expected)) => assert_eq!(answer, *expected, "{line}"),
            None => assert!(matches!(answer, Answer::Symbol(_)), "{line}: {answer:?}"),
        }
    }
}

#[test]
fn recorded_symbols_are_known() {
    for name in lines(".dlsym.txt") {
        if name.starts_with("nvml") {
            assert!(nvml::NAMES.binary_search(&name.as_str()).is_ok(), "{name}");
        } else if !name.is_empty() {
            assert!(symbols::find(&name).is_some(), "{name}");
        }
    }
}
