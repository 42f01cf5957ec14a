//! Carries out `data/families.toml`, of which the table in docs/memory.md is made: for every driver symbol that takes device
//! memory, gives it back or keeps it, one call by that very name, under a quota, compared with the simulator's account.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quota_abi::devices;
use quota_abi::group::Group;
use quota_abi::region::Mapped;
use quota_tests::{Account, Answer, Sim, Steps};
use serde::Deserialize;

const LIMIT: u64 = 64 << 20;
const BLOCK: u64 = 2 << 20;
/// What the process's contexts are charged where the row is about contexts.
const CONTEXT: &str = "2MiB";

#[derive(Debug, Deserialize)]
struct Table {
    row: Vec<Row>,
}

/// See the head of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    symbols: Vec<String>,
    #[serde(rename = "charged")]
    _charged: String,
    #[serde(rename = "back")]
    _back: String,
    #[serde(default)]
    setup: Vec<String>,
    #[serde(default = "yes")]
    context: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    takes: bool,
    call: String,
    #[serde(default)]
    calls: BTreeMap<String, String>,
    #[serde(default)]
    answer: u32,
    #[serde(default)]
    then: Vec<String>,
    #[serde(default)]
    before: u64,
    after: u64,
    #[serde(default)]
    account: Shown,
    #[serde(default)]
    asks: bool,
    #[serde(default)]
    last: bool,
    #[serde(default)]
    undo_last: Vec<String>,
    #[serde(default)]
    by_value: bool,
    #[serde(default)]
    peer: Vec<String>,
    #[serde(default)]
    undo: Vec<String>,
    #[serde(default)]
    end: u64,
    #[serde(default, rename = "tests")]
    _tests: Vec<String>,
}

/// What of the charge the simulator's account shows.
#[derive(Copy, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    #[default]
    All,
    None,
}

fn yes() -> bool {
    true
}

#[test]
fn every_symbol_does_what_its_row_says() {
    let table: Table = toml::from_str(include_str!("../data/families.toml")).unwrap();
    let mut failed = Vec::new();
    for row in &table.row {
        for symbol in &row.symbols {
            let run = catch_unwind(AssertUnwindSafe(|| Case::start(row, symbol).run()));
            if run.is_err() {
                failed.push(symbol.as_str());
            }
        }
    }
    assert_eq!(failed, Vec::<&str>::new());
}

/// One symbol of a row.
struct Case<'a> {
    row: &'a Row,
    symbol: &'a str,
    steps: Steps,
    /// A process of another group.
    peer: Option<Steps>,
    region: Mapped,
    /// Dropped last.
    sim: Sim,
}

impl<'a> Case<'a> {
    fn start(row: &'a Row, symbol: &'a str) -> Self {
        let variables = row.env.iter();
        let sim = variables.fold(Sim::new(), |sim, (name, value)| sim.with(name, value));
        let context = if row.context { "0" } else { CONTEXT };
        let client = sim.client("steps").memory(&LIMIT.to_string());
        let mut steps = client.env("GPU_QUOTA_CONTEXT", context).interpret();
        let _ = steps.quiet("cuInit 0").ok();
        if row.context {
            begin(&mut steps);
        }
        let region = Mapped::open(&Group::named(&sim.group("default")).path());
        Self {
            row,
            symbol,
            steps,
            peer: None,
            region: region.unwrap().expect("the group's region"),
            sim,
        }
    }

    fn run(&mut self) {
        let Row { before, after, .. } = *self.row;
        let told = self.start_peer();
        for step in &self.row.setup {
            let step = step.replace("{pid}", &told.0).replace("{fd}", &told.1);
            let answer = self.steps.quiet(&step);
            if step.starts_with("!fd") && !answer.success() {
                println!(
                    "skipped: {}: no process may take over another's descriptors here",
                    self.symbol
                );
                return;
            }
            let _ = answer.ok();
        }
        self.charged(before, "before");
        if self.row.takes {
            self.at_the_limit();
        }
        let answer = self.call();
        let (symbol, answered) = (self.symbol, Some(self.row.answer));
        assert_eq!(answer.code, answered, "{symbol}: {answer:?}");
        assert!(answer.calls > 0, "{symbol}: the driver was not called");
        self.all(&self.row.then);
        self.charged(after, "after");
        self.all(&self.row.undo);
        self.charged(self.row.end, "at the end");
    }

    /// The other process, if there is one: its pid, and what its last step wrote.
    fn start_peer(&mut self) -> (String, String) {
        if self.row.peer.is_empty() {
            return Default::default();
        }
        let client = self.sim.client("steps").memory("1GiB").free_context();
        let group = self.sim.group("other");
        let mut peer = client.env("GPU_QUOTA_GROUP", group).interpret();
        let _ = peer.quiet("cuInit 0").ok();
        begin(&mut peer);
        let mut told = 0;
        for step in &self.row.peer {
            let answer = peer.quiet(step).ok();
            told = answer.out.first().copied().unwrap_or(0);
        }
        let buffer = peer.get(1);
        self.steps.put(1, &buffer);
        let pid = peer.pid();
        self.peer = Some(peer);
        (pid.to_string(), told.to_string())
    }

    fn all(&mut self, steps: &[String]) {
        for step in steps {
            let _ = self.steps.quiet(step).ok();
        }
    }

    fn call(&mut self) -> Answer {
        let row = self.row;
        let arguments = row.calls.get(self.symbol).unwrap_or(&row.call);
        let mark = if row.by_value { "*" } else { "" };
        self.steps
            .step(format!("{mark}{} {arguments}", self.symbol))
    }

    /// With no room left, what would charge is refused, the driver is not called, and nothing changes.
    fn at_the_limit(&mut self) {
        let symbol = self.symbol;
        let room = LIMIT - self.row.before;
        assert_eq!(room % BLOCK, 0, "{symbol}: the rest cannot be filled");
        let fill = format!("cuMemCreate &99 {room} {{4:1,4:1,4:1,4:0,8:0,8:0}} 0");
        let _ = self.steps.quiet(fill).ok();
        let before = self.account();
        let answer = match self.row.then.split_last() {
            Some((last, others)) if self.row.last => {
                let _ = self.call().ok();
                self.all(others);
                self.steps.step(last)
            }
            _ => self.call(),
        };
        assert_eq!(answer.code, Some(2), "{symbol} at the limit: {answer:?}");
        if !self.row.asks {
            assert_eq!(
                answer.calls, 0,
                "{symbol}: refused after the driver was called"
            );
        }
        let after = answer.account();
        assert_eq!(
            held(&after),
            held(&before),
            "{symbol}: held after a refusal"
        );
        self.all(&self.row.undo_last);
        let _ = self.steps.quiet("cuMemRelease $99").ok();
        self.charged(self.row.before, "after a refusal");
    }

    fn account(&mut self) -> Account {
        self.steps.step("cuCtxGetCurrent &98").account()
    }

    /// Compares the ledger with the row, and the simulator's account with both.
    fn charged(&mut self, wanted: u64, when: &str) {
        let account = self.account();
        let uuid = u128::from_str_radix(&account.devices[0].uuid[4..].replace('-', ""), 16);
        let index = devices::find(&self.region, &uuid.unwrap().to_be_bytes()).unwrap();
        let usage = devices::ledger(&self.region, index).unwrap().usage();
        assert_eq!(usage, wanted, "{} {when}: charged", self.symbol);
        match self.row.account {
            Shown::All => assert_eq!(held(&account), wanted, "{} {when}: held", self.symbol),
            Shown::None => {}
        }
    }
}

/// The primary context of device 0, current.
fn begin(steps: &mut Steps) {
    let _ = steps.quiet("cuDevicePrimaryCtxRetain &0 0").ok();
    let _ = steps.quiet("cuCtxSetCurrent $0").ok();
}

/// What the simulated device holds for what was asked of it.
fn held(account: &Account) -> u64 {
    account.devices[0].requested
}
