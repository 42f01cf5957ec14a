//! `quota-daemon check-config`: what a configuration means, or everything that is wrong with it.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::{
    CdiSettings, Config, DaemonSettings, Oversubscribe, Problem, Problems, Rule, Source,
    Unregistered,
};
use crate::exit::Stop;
use crate::model::{Quota, Spec};
use crate::output::{json, print};
use crate::status::compute;
use crate::table::{Cell, Screen, Table, numbers, words};
use crate::units::size;

/// Which configuration, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, or directories of *.toml, instead of /etc/gpu-quota/config.toml and conf.d.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print what was read as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: Source,
}

/// Reads everything and prints it.
///
/// # Errors
/// [`Stop::Failed`] when something is wrong with it, which is printed as `file:line:column: text`.
pub fn run(args: &Args) -> Result<(), Stop> {
    let read = if args.paths.is_empty() {
        args.source.load()
    } else {
        Config::open(&args.paths)
    };
    match read {
        Ok(config) if args.json => Ok(json(&Report::of(&config))?),
        Ok(config) => Ok(print(&text(&config, Screen::stdout()))?),
        Err(problems) => {
            if args.json {
                json(&Report::wrong(&problems))?;
            } else {
                eprintln!("{problems}");
            }
            Err(Stop::Failed)
        }
    }
}

/// The JSON form; `version` changes when a field changes its meaning.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    ok: bool,
    files: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    daemon: Option<&'a DaemonSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdi: Option<&'a CdiSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Entry<'a>>,
    containers: Vec<Entry<'a>>,
    problems: Vec<Told<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    cgroups: &'a [String],
    every: Option<Quota>,
    devices: std::collections::BTreeMap<String, Quota>,
}

#[derive(Serialize)]
struct Told<'a> {
    file: &'a PathBuf,
    line: Option<usize>,
    column: Option<usize>,
    text: &'a str,
}

impl<'a> Report<'a> {
    fn of(config: &'a Config) -> Self {
        let of_rule = |rule: &'a Rule| Entry {
            name: None,
            cgroups: &rule.cgroups,
            every: rule.every,
            devices: rule
                .devices
                .iter()
                .map(|(s, q)| (s.to_string(), *q))
                .collect(),
        };
        let of_spec = |spec: &'a Spec| Entry {
            name: Some(&spec.name),
            cgroups: &spec.cgroups,
            every: spec.every,
            devices: spec
                .devices
                .iter()
                .map(|(s, q)| (s.to_string(), *q))
                .collect(),
        };
        Self {
            version: 1,
            ok: true,
            files: &config.files,
            daemon: Some(&config.daemon),
            cdi: Some(&config.cdi),
            default: config.default.as_ref().map(of_rule),
            containers: config.containers.iter().map(of_spec).collect(),
            problems: Vec::new(),
        }
    }

    fn wrong(problems: &'a Problems) -> Self {
        let told = |problem: &'a Problem| Told {
            file: &problem.file,
            line: problem.at.map(|(line, _)| line),
            column: problem.at.map(|(_, column)| column),
            text: &problem.text,
        };
        Self {
            version: 1,
            ok: false,
            files: &[],
            daemon: None,
            cdi: None,
            default: None,
            containers: Vec::new(),
            problems: problems.list().iter().map(told).collect(),
        }
    }
}

fn text(config: &Config, screen: Screen) -> String {
    let files: Vec<_> = config
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let files = match files.len() {
        0 => "no file: the defaults".into(),
        _ => files.join(", "),
    };
    let mut text = format!("{files}\n{}\n", daemon(&config.daemon));
    if let Some(folder) = &config.cdi.publish {
        text.push_str(&format!(
            "devices {} in {}\n",
            config.cdi.kind,
            folder.display()
        ));
    }
    text.push('\n');
    let mut table = Table::new([
        words("CONTAINER"),
        words("GPU"),
        numbers("MEMORY"),
        words("TIME"),
        numbers("CONTEXT").spare(1),
        words("NOTE").spare(2),
        words("CGROUPS").spare(3),
    ]);
    for spec in &config.containers {
        rows(&mut table, spec);
    }
    match &config.default {
        Some(rule) => {
            let spec = Spec {
                cgroups: rule.cgroups.clone(),
                ..rule.spec("(default)")
            };
            rows(&mut table, &spec);
        }
        None => text.push_str("nobody is admitted who is not declared\n"),
    }
    if table.is_empty() {
        text.push_str("no container is declared\n");
    } else {
        text.push_str(&table.show(screen));
    }
    text
}

fn daemon(daemon: &DaemonSettings) -> String {
    let metrics = daemon
        .metrics
        .map_or("none".into(), |address| address.to_string());
    let group = daemon
        .group
        .as_ref()
        .map_or("root alone".into(), |group| group.name.clone());
    let over = match daemon.oversubscribe {
        Oversubscribe::No => "not more than there is".into(),
        Oversubscribe::By(factor) => format!("{factor} times what there is"),
        Oversubscribe::Any => "any amount".into(),
    };
    let unregistered = match daemon.unregistered {
        Unregistered::Report => "reported",
        Unregistered::Kill => "killed",
    };
    format!(
        "state {}; control by {group}; metrics at {metrics}; promised: {over}; unregistered processes: {unregistered}; \
         turns: {}",
        daemon.state.display(),
        if daemon.turns { "on" } else { "off" }
    )
}

fn rows(table: &mut Table, spec: &Spec) {
    let mut name = Cell::from(&spec.name);
    let mut cgroups = Cell::from(spec.cgroups.join(" "));
    let named = spec
        .devices
        .iter()
        .map(|(selector, quota)| (selector.to_string(), quota));
    let others = if spec.devices.is_empty() {
        "all"
    } else {
        "others"
    };
    let every = spec.every.iter().map(|quota| (others.to_owned(), quota));
    for (device, quota) in named.chain(every) {
        table.row([
            std::mem::take(&mut name),
            device.into(),
            quota.memory_bytes.map_or("none".into(), size).into(),
            compute(&quota.compute, None).into(),
            quota.context_bytes.map_or("measured".into(), size).into(),
            note(quota).into(),
            std::mem::take(&mut cgroups),
        ]);
    }
}

fn note(quota: &Quota) -> String {
    let observe = if quota.observe { "observed only" } else { "" };
    match quota.priority {
        0 => observe.into(),
        priority if observe.is_empty() => format!("priority {priority}"),
        priority => format!("{observe}, priority {priority}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::File;

    fn config(text: &str) -> Result<Config, Problems> {
        Config::read(&[File {
            path: "c.toml".into(),
            text: text.into(),
        }])
    }

    const GOOD: &str = "[cdi]\npublish = \"/x\"\n[daemon]\nmetrics = \"127.0.0.1:9400\"\noversubscribe = 1.5\n\
                        [[container]]\nname = \"a\"\ncgroups = [\"/a/**\"]\nmemory = \"4GiB\"\nweight = 5\ncap = 50\n\
                        device.\"1\" = { memory = \"none\", observe = true, priority = -1 }\n\
                        [[container]]\nname = \"b\"\ndevice.\"0\".memory = \"1g\"\n\
                        [default]\nmemory = \"1g\"\ncompute = 10\ncontext = 0\n";

    #[test]
    fn what_each_gets_is_shown() {
        let text = text(&config(GOOD).unwrap(), Screen::PLAIN);
        let expected = "\
c.toml
state /run/gpu-quota; control by root alone; metrics at 127.0.0.1:9400; promised: 1.5 times what there is; unregistered processes: reported; turns: on
devices gpu-quota.io/container in /x

CONTAINER  GPU     MEMORY  TIME                     CONTEXT  NOTE                        CGROUPS
a          1         none  weight 5, at most 50 %  measured  observed only, priority -1  /a/**
           others   4 GiB  weight 5, at most 50 %  measured
b          0        1 GiB  free                    measured
(default)  all      1 GiB  10 %                         0 B
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_same_as_json() {
        let config = config(GOOD).unwrap();
        let value = serde_json::to_value(Report::of(&config)).unwrap();
        assert_eq!(value["ok"], true);
        assert_eq!(value["containers"][0]["every"]["memory_bytes"], 4_u64 << 30);
        assert_eq!(value["containers"][0]["every"]["compute"]["weight"], 5);
        assert_eq!(value["containers"][0]["devices"]["1"]["observe"], true);
        assert_eq!(value["containers"][1]["every"], serde_json::Value::Null);
        assert_eq!(value["default"]["every"]["context_bytes"], 0);
        assert_eq!(value["daemon"]["oversubscribe"]["by"], 1.5);
        let problems = super::tests::config("[[container]]\nname = 1\n").unwrap_err();
        let value = serde_json::to_value(Report::wrong(&problems)).unwrap();
        assert_eq!(value["ok"], false);
        assert_eq!(value["problems"][0]["file"], "c.toml");
        assert_eq!(value["problems"][0]["line"], 1);
    }
}
