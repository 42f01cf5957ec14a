//! The tables in `README.md` and in the threat model name tests that exist.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::workspace;

#[test]
fn every_test_named_in_the_table_exists() {
    let dir = workspace().join("tests");
    let texts = ["tests/README.md", "docs/threat-model.md"]
        .map(|path| std::fs::read_to_string(workspace().join(path)).unwrap());
    let mut named = 0;
    for row in texts
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("| ") && line.contains("::"))
    {
        for name in row.split('`').skip(1).step_by(2) {
            let Some((file, test)) = name.split_once("::") else {
                continue;
            };
            let source = std::fs::read_to_string(dir.join(format!("tests/{file}.rs"))).unwrap();
            let declared = source.split(&format!("fn {test}()")).next().unwrap();
            assert!(declared.len() < source.len(), "no test {name}");
            assert!(
                declared.trim_end().ends_with("#[test]"),
                "{name} is not a test"
            );
            named += 1;
        }
    }
    assert!(named > 75, "only {named} tests are named");
}
