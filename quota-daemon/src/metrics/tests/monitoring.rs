//! The dashboard and the alert rules name metrics and labels that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{counters, full};
use crate::metrics::render;

/// What Prometheus itself adds to each sample.
const ADDED: [&str; 2] = ["instance", "job"];

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../packaging/monitoring"
    ))
    .join(name)
}

/// Every name that a sample has, with the labels that it has.
fn exported() -> BTreeMap<String, BTreeSet<String>> {
    let text = render(&full(), &counters());
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| match line.split_once('{') {
            Some((name, rest)) => {
                let pairs = rest.split_once('}').unwrap().0;
                (name.to_owned(), names_of(pairs))
            }
            None => (line.split(' ').next().unwrap().to_owned(), BTreeSet::new()),
        })
        .collect()
}

/// The names in `a="x",b=~"y"`.
fn names_of(pairs: &str) -> BTreeSet<String> {
    let ends = |c: char| matches!(c, '=' | '!');
    let name = |pair: &str| pair.split(ends).next().unwrap().trim().to_owned();
    pairs.split(',').map(name).collect()
}

/// Each metric that a text names, and the labels that it asks of it.
fn asked(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let parts = text.split("gpu_quota_").skip(1);
    parts
        .map(|part| {
            let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let end = part.find(ends).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let pairs = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let labels = pairs.map_or_else(BTreeSet::new, |(pairs, _)| names_of(pairs));
            (format!("gpu_quota_{name}"), labels)
        })
        .collect()
}

/// Labels in `by (a, b)`, `on (a, b)` and `$labels.a`, `{{a}}`.
fn mentioned(text: &str, before: &str, ends: impl Fn(char) -> bool + Copy) -> BTreeSet<String> {
    let lists = text.split(before).skip(1);
    let inside = lists.filter_map(|list| list.split(ends).next());
    let names = inside.flat_map(|list| list.split(','));
    names.map(|name| name.trim().to_owned()).collect()
}

/// Holds the metrics of `text` and `labels` beside them to what is exported.
#[track_caller]
fn check(text: &str, labels: BTreeSet<String>) -> usize {
    let exported = exported();
    let asked = asked(text);
    let mut known: BTreeSet<String> = ADDED.map(String::from).into();
    for (name, wanted) in &asked {
        let has = exported
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not exported: {text}"));
        for label in wanted {
            assert!(
                has.contains(label) || ADDED.contains(&label.as_str()),
                "{name} has no label {label}: {text}"
            );
        }
        known.extend(has.iter().cloned());
    }
    for label in labels {
        assert!(known.contains(&label), "no label {label} there: {text}");
    }
    asked.len()
}

#[test]
fn the_alert_rules_ask_for_what_there_is() {
    let text = fs::read_to_string(file("alerts.yaml")).unwrap();
    let mut rules = 0;
    for rule in text.split("- alert: ").skip(1) {
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let mut labels = mentioned(rule, "$labels.", word);
        labels.extend(mentioned(rule, "on (", |c| c == ')'));
        let metrics = check(rule, labels);
        assert!(
            metrics > 0 || rule.starts_with("GpuQuotaDaemonAway"),
            "{rule}"
        );
        rules += 1;
    }
    assert_eq!(
        rules, 9,
        "a rule for each row of the table in docs/operations.md"
    );
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let text = fs::read_to_string(file("dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut curves = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap();
            let mut labels = mentioned(legend, "{{", |c| c == '}');
            labels.extend(mentioned(expression, "by (", |c| c == ')'));
            labels.retain(|label| label != "le");
            assert_eq!(check(expression, labels).min(1), 1, "{expression}");
            curves += 1;
        }
    }
    assert!(curves > 20, "{curves} curves");
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let query = variable["query"].as_str().unwrap();
        let label = query
            .rsplit_once(", ")
            .map(|(_, label)| label.trim_end_matches(')'));
        check(query, label.map(String::from).into_iter().collect());
    }
}

#[test]
fn the_dashboard_is_what_its_script_prints() {
    let printed = Command::new("python3")
        .arg(file("make-dashboard.py"))
        .output();
    let Ok(printed) = printed else {
        return println!("skipped: no python3");
    };
    let kept = fs::read_to_string(file("dashboard.json")).unwrap();
    assert!(printed.status.success(), "{printed:?}");
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), kept);
}

/// Prometheus's own judgement of the rules, where its checker is.
#[test]
fn promtool_accepts_the_rules() {
    let checker = Command::new("promtool")
        .args(["check", "rules"])
        .arg(file("alerts.yaml"))
        .output();
    let Ok(checked) = checker else {
        return println!("skipped: no promtool");
    };
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success() && text.contains("9 rules"),
        "{checked:?}"
    );
}
