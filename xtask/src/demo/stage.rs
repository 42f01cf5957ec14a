//! The phases: tells tenants what to do, follows what they get, keeps the figures.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::account::{Account, Snapshot};
use super::share::{recent, share};
use super::table::{Row, Screen};
use super::tenant::{Attempt, Done, Line, Message, Plan, Start, Tenant};
use super::verdict;
use crate::stand::Pulse;

/// A tenant that says nothing for this long has hung.
const SILENCE: Duration = Duration::from_secs(20);

/// How often the figures are read; a share shown is over the last [`WINDOW`] of them.
const TICK: Duration = Duration::from_millis(250);
const WINDOW: usize = 4;

/// The clock and how long each tenant was busy by then.
type Figures = Vec<(u64, u64)>;

/// All that is known at the end.
pub(super) struct Outcome {
    /// Whether the figures are the simulator's own.
    pub(super) by_simulator: bool,
    /// One per tenant.
    pub(super) tenants: Vec<Player>,
    /// One per phase of work.
    pub(super) phases: Vec<Phase>,
}

/// One tenant's figures.
pub(super) struct Player {
    pub(super) plan: Plan,
    pub(super) done: Done,
    /// The most bytes it ever held.
    pub(super) peak: u64,
    pub(super) attempts: Vec<Attempt>,
    pub(super) ended_well: bool,
}

/// One phase: who got what share of the GPU.
pub(super) struct Phase {
    pub(super) title: String,
    /// By tenant; `None` for one that did not work in this phase.
    pub(super) shares: Vec<Option<f64>>,
    /// Whether each is to have what it asked, and not only no more than that.
    pub(super) exact: bool,
    /// How long this machine stood still meanwhile, if that is enough to be seen.
    pub(super) stalled: Option<Duration>,
}

/// The tenants while they run.
pub(super) struct Stage {
    account: Account,
    running: Vec<Tenant>,
    messages: Receiver<(usize, Message)>,
    outcome: Outcome,
    screen: Screen,
    waiting: Vec<bool>,
    history: Vec<Vec<(u64, u64)>>,
    /// All figures of the phase that runs: (clock, busy) of each tenant at each tick.
    trace: Vec<Figures>,
    began: Instant,
}

impl Stage {
    /// Starts one tenant for each plan and waits until all are ready.
    pub(super) fn open(start: &Start<'_>, account: Account, plans: &[Plan]) -> Result<Self> {
        let (sender, messages) = channel();
        let mut running = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            running.push(Tenant::start(start, plan, index, sender.clone())?);
        }
        let player = |plan: &Plan| Player {
            plan: *plan,
            done: Done::default(),
            peak: 0,
            attempts: Vec::new(),
            ended_well: false,
        };
        let by_simulator = matches!(account, Account::Simulator(_));
        let tenants = plans.iter().map(player).collect();
        let mut stage = Self {
            account,
            running,
            messages,
            outcome: Outcome {
                by_simulator,
                tenants,
                phases: Vec::new(),
            },
            screen: Screen::new(),
            waiting: vec![true; plans.len()],
            history: vec![Vec::new(); plans.len()],
            trace: Vec::new(),
            began: Instant::now(),
        };
        stage.follow("starting")?;
        Ok(stage)
    }

    /// Lets the tenants `who` work for `length`, each holding half of its memory. A phase that misses, while this machine was
    /// seen to stand still, is done once more.
    pub(super) fn work(
        &mut self,
        title: &str,
        who: &[usize],
        length: Duration,
        exact: bool,
    ) -> Result<()> {
        let mut phase = self.try_work(title, who, length, exact)?;
        if let Some(stalled) = phase.stalled
            && !verdict::misses(&self.outcome.tenants, &phase).is_empty()
        {
            self.screen.say(&format!(
                "{title}: this machine stood still for {:.0} ms of {:.0} s, and shares were missed; once more",
                stalled.as_secs_f64() * 1000.0,
                length.as_secs_f64()
            ));
            phase = self.try_work(title, who, length, exact)?;
        }
        self.outcome.phases.push(phase);
        Ok(())
    }

    fn try_work(
        &mut self,
        title: &str,
        who: &[usize],
        length: Duration,
        exact: bool,
    ) -> Result<Phase> {
        self.begin();
        for &index in who {
            let half = self
                .outcome
                .tenants
                .get(index)
                .map_or(0, |player| player.plan.memory / 2);
            self.tell(index, &format!("hold {half}"))?;
        }
        self.follow(title)?;
        self.begin();
        let pulse = Pulse::begin();
        for &index in who {
            self.tell(index, &format!("work {}", length.as_millis()))?;
        }
        self.follow(title)?;
        let together = together(&self.trace, who);
        let (start, end) = together.context("a phase was too short to tell anything")?;
        let share = |index: usize| {
            let (start, end) = (start.get(index)?, end.get(index)?);
            who.contains(&index).then(|| share(*start, *end))
        };
        Ok(Phase {
            title: title.into(),
            shares: (0..self.outcome.tenants.len()).map(share).collect(),
            exact,
            stalled: pulse.stalled(),
        })
    }

    /// Lets every tenant try to get more memory than it may.
    pub(super) fn overrun(&mut self, title: &str) -> Result<()> {
        self.begin();
        for index in 0..self.running.len() {
            self.tell(index, "overrun")?;
        }
        self.follow(title)?;
        self.draw(title, true)
    }

    /// Ends the tenants and gives the figures.
    pub(super) fn close(mut self) -> Result<Outcome> {
        for (tenant, player) in self.running.drain(..).zip(&mut self.outcome.tenants) {
            player.ended_well = tenant.quit()?;
        }
        self.screen.finish();
        Ok(self.outcome)
    }

    /// Forgets what was measured: a row is of the phase that it names, so the next one is of the time from here on.
    fn begin(&mut self) {
        self.history.iter_mut().for_each(Vec::clear);
        self.trace.clear();
        self.screen.begin(Instant::now());
    }

    fn tell(&mut self, index: usize, command: &str) -> Result<()> {
        let tenant = self.running.get_mut(index).context("no such tenant")?;
        tenant.tell(command)?;
        if let Some(waiting) = self.waiting.get_mut(index) {
            *waiting = true;
        }
        Ok(())
    }

    /// Shows what happens until every tenant that was told something has done it.
    fn follow(&mut self, title: &str) -> Result<()> {
        let mut heard = Instant::now();
        let mut next_tick = Instant::now();
        while self.waiting.iter().any(|&waiting| waiting) {
            let now = Instant::now();
            if now >= next_tick {
                self.draw(title, false)?;
                next_tick = now + TICK;
            }
            match self
                .messages
                .recv_timeout(next_tick.saturating_duration_since(now))
            {
                Ok((index, message)) => {
                    heard = Instant::now();
                    self.hear(index, message)?;
                }
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < SILENCE => {}
                Err(RecvTimeoutError::Timeout) => bail!("the tenants hang in phase {title:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("the tenants are gone"),
            }
        }
        Ok(())
    }

    fn hear(&mut self, index: usize, message: Message) -> Result<()> {
        let player = self
            .outcome
            .tenants
            .get_mut(index)
            .context("no such tenant")?;
        let mut finished = false;
        match message {
            Message::Line(Line::Ready { device, total }) => {
                self.screen.device(player.plan.name, &device, total);
                finished = true;
            }
            Message::Line(Line::Progress(done)) => player.done = done,
            Message::Line(Line::Done(done)) => {
                player.done = done;
                finished = true;
            }
            Message::Line(Line::Attempt(attempt)) => player.attempts.push(attempt),
            Message::End(reason) => bail!("tenant {} {reason}", player.plan.name),
        }
        if finished && let Some(waiting) = self.waiting.get_mut(index) {
            *waiting = false;
        }
        Ok(())
    }

    /// (clock, busy) of every tenant now; notes peaks on the way.
    fn figures(&mut self) -> Result<Vec<(u64, u64)>> {
        let snapshot = self.account.read()?;
        let clock = u64::try_from(self.began.elapsed().as_nanos())?;
        let mut figures = Vec::new();
        for player in &mut self.outcome.tenants {
            match &snapshot {
                Some(Snapshot { clock_ns, tenants }) => {
                    let usage = tenants.get(player.plan.name).copied().unwrap_or_default();
                    player.peak = player.peak.max(usage.peak_requested).max(usage.requested);
                    figures.push((*clock_ns, usage.busy_ns));
                }
                None => {
                    player.peak = player.peak.max(player.done.held);
                    figures.push((clock, player.done.work_ns));
                }
            }
        }
        Ok(figures)
    }

    /// Shows the figures; `always` even if a terminal's absence asks for fewer lines.
    fn draw(&mut self, title: &str, always: bool) -> Result<()> {
        let figures = self.figures()?;
        self.trace.push(figures.clone());
        let mut rows = Vec::new();
        for ((player, now), history) in self
            .outcome
            .tenants
            .iter()
            .zip(figures)
            .zip(&mut self.history)
        {
            history.push(now);
            if history.len() > WINDOW + 1 {
                history.remove(0);
            }
            let got = history.first().and_then(|then| recent(*then, now));
            rows.push(Row { player, got });
        }
        let at = self.began.elapsed();
        if always {
            self.screen.show(title, at, &rows);
        } else {
            self.screen.draw(title, at, &rows);
        }
        Ok(())
    }
}

/// The first and the last figures between which all of `who` were at work: after each had begun, and before the first one ended.
fn together<'a>(trace: &'a [Figures], who: &[usize]) -> Option<(&'a Figures, &'a Figures)> {
    let first = trace.first()?;
    let busy = |figures: &[(u64, u64)], index: usize| figures.get(index).map_or(0, |one| one.1);
    let all_begun = |now: &Figures| {
        who.iter()
            .all(|index| busy(now, *index) > busy(first, *index))
    };
    let begin = trace.iter().position(all_begun)?;
    // At the last tick that one of them had not reached yet, it was still at work.
    let moving = |pair: &[Figures]| {
        let [before, after] = pair else { return false };
        who.iter()
            .all(|index| busy(after, *index) > busy(before, *index))
    };
    let windows = trace.get(begin..)?.windows(2);
    let length = windows.take_while(|pair| moving(pair)).count();
    // The last stretch may be the one in which the first of them ended.
    let end = (begin + length).checked_sub(1).filter(|end| *end > begin)?;
    Some((trace.get(begin)?, trace.get(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_in_which_both_worked_counts() {
        // Ticks of 250: the second one begins at the third tick and ends, and the first one goes on.
        let trace: Vec<Figures> = vec![
            vec![(0, 0), (0, 7)],
            vec![(250, 75), (250, 7)],
            vec![(500, 150), (500, 107)],
            vec![(750, 225), (750, 257)],
            vec![(1000, 300), (1000, 407)],
            vec![(1250, 375), (1250, 450)],
            vec![(1500, 450), (1500, 450)],
        ];
        let (start, end) = together(&trace, &[0, 1]).unwrap();
        assert_eq!((start, end), (&trace[2], &trace[4]));
        let (start, end) = together(&trace, &[0]).unwrap();
        assert_eq!((start, end), (&trace[1], &trace[5]));
        assert!(together(&trace[..3], &[0, 1]).is_none());
        assert!(together(&[], &[0]).is_none());
    }
}
