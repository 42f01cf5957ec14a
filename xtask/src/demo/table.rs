//! The live table and the summary: redrawn on a terminal, a line a second elsewhere.

use std::env;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};
use std::time::{Duration, Instant};

use super::stage::{Outcome, Player};
use super::verdict::{Check, Summary};

/// One tenant in the table.
pub(super) struct Row<'a> {
    pub(super) player: &'a Player,
    /// Its share of GPU time just now, in percent; `None` where there is not yet anything to tell it by.
    pub(super) got: Option<f64>,
}

/// Where the table is drawn.
pub(super) struct Screen {
    redraw: bool,
    lines: usize,
    last: Option<Instant>,
}

impl Screen {
    pub(super) fn new() -> Self {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            redraw: stdout().is_terminal() && !dumb,
            lines: 0,
            last: None,
        }
    }

    /// Says what a tenant is shown of the device.
    pub(super) fn device(&mut self, tenant: &str, device: &str, total: u64) {
        self.clear();
        println!("tenant {tenant} sees {device} with {}", gib(total));
    }

    /// Shows the figures.
    pub(super) fn draw(&mut self, title: &str, at: Duration, rows: &[Row<'_>]) {
        let now = Instant::now();
        if !self.redraw && !self.is_due(now) {
            return;
        }
        self.last = Some(now);
        self.show(title, at, rows);
    }

    /// Shows the figures, whether they are due or not.
    pub(super) fn show(&mut self, title: &str, at: Duration, rows: &[Row<'_>]) {
        let mut text = String::new();
        if self.redraw {
            table(&mut text, title, at, rows);
            self.clear();
            self.lines = text.lines().count();
        } else {
            line(&mut text, title, at, rows);
        }
        print!("{text}");
        let _ = stdout().flush();
    }

    /// Says something between two tables.
    pub(super) fn say(&mut self, text: &str) {
        self.lines = 0;
        println!("{text}");
    }

    /// A phase begins: the first line of it is due when there is something to tell.
    pub(super) fn begin(&mut self, at: Instant) {
        self.last = Some(at);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.duration_since(last) >= Duration::from_millis(990))
    }

    /// Leaves the last table standing.
    pub(super) fn finish(&mut self) {
        self.lines = 0;
    }

    fn clear(&mut self) {
        if self.lines > 0 {
            print!("\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }
}

fn table(text: &mut String, title: &str, at: Duration, rows: &[Row<'_>]) {
    let _ = writeln!(text, "\n{:>5.1} s  {title}", at.as_secs_f64());
    let _ = writeln!(
        text,
        "  tenant   time asked   time got   memory asked       held    refused   launches"
    );
    for Row { player, got } in rows {
        let _ = writeln!(
            text,
            "  {:<6} {:>10.0} % {:>8} % {:>14} {:>10} {:>10} {:>10}",
            player.plan.name,
            player.plan.compute,
            percent(*got),
            gib(player.plan.memory),
            gib(player.done.held),
            player.done.refused,
            player.done.launches
        );
    }
}

fn line(text: &mut String, title: &str, at: Duration, rows: &[Row<'_>]) {
    let _ = write!(text, "{:>5.1} s  {title:<15}", at.as_secs_f64());
    for Row { player, got } in rows {
        let _ = write!(
            text,
            "  | {}: {:>5} of {:.0} %, {} of {}, {} refused",
            player.plan.name,
            percent(*got),
            player.plan.compute,
            gib(player.done.held),
            gib(player.plan.memory),
            player.done.refused
        );
    }
    text.push('\n');
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{share:.1}"))
}

/// Prints what was got and whether every quota held.
pub(super) fn print_summary(outcome: &Outcome, summary: &Summary, gpu: &str, took: Duration) {
    let seconds = took.as_secs_f64();
    println!("\nSummary ({gpu}, {seconds:.0} s; {})\n", summary.source);
    print!("{}", figures(outcome));
    println!();
    let colour = stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    for Check { what, broken } in &summary.checks {
        let (word, code) = if broken.is_empty() {
            ("holds", "32")
        } else {
            ("FAILS", "31")
        };
        if colour {
            println!("  \x1b[{code}m{word}\x1b[0m  {what}");
        } else {
            println!("  {word}  {what}");
        }
        for place in broken {
            println!("         {place}");
        }
    }
    for note in &summary.notes {
        println!("  note   {note}");
    }
}

/// The figures, a tenant a line.
fn figures(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut head = format!("  {:<6} {:>12}", "tenant", "time asked");
    for phase in &outcome.phases {
        let _ = write!(head, " {:>14}", phase.title);
    }
    let _ = writeln!(
        text,
        "{head} {:>14} {:>12} {:>12}",
        "memory asked", "most held", "over quota"
    );
    for (index, player) in outcome.tenants.iter().enumerate() {
        let _ = write!(
            text,
            "  {:<6} {:>10.0} %",
            player.plan.name, player.plan.compute
        );
        for phase in &outcome.phases {
            let share = phase.shares.get(index).copied().flatten();
            let share = share.map_or_else(|| "-".into(), |share| format!("{share:.1} %"));
            let _ = write!(text, " {share:>14}");
        }
        let refused = format!(
            "{}/{} refused",
            player.refused_attempts(),
            player.attempts.len()
        );
        let (asked, held) = (gib(player.plan.memory), gib(player.peak));
        let _ = writeln!(text, " {asked:>14} {held:>12} {refused:>12}");
    }
    text
}

/// A size for people.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub(super) fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_phase_has_a_second_of_it_to_tell() {
        let now = Instant::now();
        let mut screen = Screen::new();
        assert!(screen.is_due(now));
        screen.begin(now);
        assert!(!screen.is_due(now + Duration::from_millis(900)));
        assert!(screen.is_due(now + Duration::from_secs(1)));
    }

    #[test]
    fn a_share_that_nobody_knows_is_none() {
        assert_eq!(percent(None), "-");
        assert_eq!(percent(Some(0.0)), "0.0");
    }
}
