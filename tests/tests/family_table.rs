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
    region: Mapped,
    /// Dropped last.
    _sim: Sim,
}

impl<'a> Case<'a> {
    fn start(row: &'a Row, symbol: &'a str) -> Self {
        let sim = Sim::new();
        let context = if row.context { "0" } else { CONTEXT };
        let client = sim.client("steps").memory(&LIMIT.to_string());
        let mut steps = client.env("GPU_QUOTA_CONTEXT", context).interpret();
        let _ = steps.quiet("cuInit 0").ok();
        if row.context {
            let _ = steps.quiet("cuDevicePrimaryCtxRetain &0 0").ok();
            let _ = steps.quiet("cuCtxSetCurrent $0").ok();
        }
        let region = Mapped::open(&Group::named(&sim.group("default")).path());
        Self {
            row,
            symbol,
            steps,
            region: region.unwrap().expect("the group's region"),
            _sim: sim,
        }
    }

    fn run(&mut self) {
        let Row { before, after, .. } = *self.row;
        for step in &self.row.setup {
            let _ = self.steps.quiet(step).ok();
        }
        self.charged(before, "before");
        if self.row.takes {
            self.at_the_limit();
        }
        let answer = self.call();
        assert_eq!(
            answer.code,
            Some(self.row.answer),
            "{}: {answer:?}",
            self.symbol
        );
        assert!(
            answer.calls > 0,
            "{}: the driver was not called",
            self.symbol
        );
        for step in &self.row.then {
            let _ = self.steps.quiet(step).ok();
        }
        self.charged(after, "after");
        for step in &self.row.undo {
            let _ = self.steps.quiet(step).ok();
        }
        self.charged(self.row.end, "at the end");
    }

    fn call(&mut self) -> Answer {
        let row = self.row;
        let arguments = row.calls.get(self.symbol).unwrap_or(&row.call);
        self.steps.step(format!("{} {arguments}", self.symbol))
    }

    /// With no room left, what would charge is refused, the driver is not called, and nothing changes.
    fn at_the_limit(&mut self) {
        let room = LIMIT - self.row.before;
        assert_eq!(
            room % BLOCK,
            0,
            "{}: the rest cannot be filled",
            self.symbol
        );
        let properties = "{4:1,4:1,4:1,4:0,8:0,8:0}";
        let _ = self
            .steps
            .quiet(format!("cuMemCreate &99 {room} {properties} 0"))
            .ok();
        let before = self.steps.step("cuCtxGetCurrent &98").account();
        let answer = self.call();
        assert_eq!(
            answer.code,
            Some(2),
            "{} at the limit: {answer:?}",
            self.symbol
        );
        assert_eq!(
            answer.calls, 0,
            "{}: refused, and the driver was called",
            self.symbol
        );
        assert_eq!(held(&answer.account()), held(&before), "{}", self.symbol);
        let _ = self.steps.quiet("cuMemRelease $99").ok();
        self.charged(self.row.before, "after a refusal");
    }

    /// Compares the ledger with the row, and the simulator's account with both.
    fn charged(&mut self, wanted: u64, when: &str) {
        let account = self.steps.step("cuCtxGetCurrent &98").account();
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

/// What the simulated device holds for what was asked of it.
fn held(account: &Account) -> u64 {
    account.devices[0].requested
}
