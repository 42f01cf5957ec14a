//! Whether every quota held, from the figures alone.

use super::stage::{Outcome, Phase, Player};
use super::table::gib;

/// A tenant may be this many points above its share: the burst that a bucket allows, over seconds.
const TOLERANCE: f64 = 3.0;

/// `CUDA_ERROR_OUT_OF_MEMORY`, the only right answer over quota.
const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_SUPPORTED`: this device has no such call, quota or not.
const NOT_SUPPORTED: u32 = 801;

/// What is printed at the end.
pub(super) struct Summary {
    /// Who counted.
    pub(super) source: &'static str,
    pub(super) checks: Vec<Check>,
    /// What is shown but decides nothing.
    pub(super) notes: Vec<String>,
}

/// One thing that must hold.
pub(super) struct Check {
    pub(super) what: String,
    pub(super) figure: String,
    pub(super) holds: bool,
}

impl Summary {
    pub(super) fn holds(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.holds)
    }
}

/// Judges the figures.
pub(super) fn judge(outcome: &Outcome) -> Summary {
    let mut checks = Vec::new();
    for player in &outcome.tenants {
        checks.push(memory(player));
        checks.push(attempts(player));
        checks.push(Check {
            what: format!("tenant {} ran to its end", player.plan.name),
            figure: format!("{} kernels launched", player.done.launches),
            holds: player.ended_well && player.done.launches > 0,
        });
    }
    for phase in &outcome.phases {
        for (player, share) in outcome.tenants.iter().zip(&phase.shares) {
            if let Some(share) = share {
                checks.push(time(phase, player, *share));
            }
        }
    }
    let source = if outcome.by_simulator {
        "the simulator's own account"
    } else {
        "the tenants: bytes held, and work done times its calibrated cost"
    };
    Summary {
        source,
        checks,
        notes: notes(outcome),
    }
}

fn memory(player: &Player) -> Check {
    Check {
        what: format!(
            "tenant {} never held more than its memory",
            player.plan.name
        ),
        figure: format!(
            "{} at most, of {}",
            gib(player.peak),
            gib(player.plan.memory)
        ),
        holds: player.peak > 0 && player.peak <= player.plan.memory,
    }
}

fn attempts(player: &Player) -> Check {
    let refused = player
        .attempts
        .iter()
        .filter(|attempt| attempt.code == OUT_OF_MEMORY)
        .count();
    let absent = player
        .attempts
        .iter()
        .filter(|attempt| attempt.code == NOT_SUPPORTED)
        .count();
    let wrong: Vec<_> = player
        .attempts
        .iter()
        .filter(|attempt| !matches!(attempt.code, OUT_OF_MEMORY | NOT_SUPPORTED))
        .map(|attempt| {
            format!(
                "; {} of {} answered {}",
                attempt.call,
                gib(attempt.bytes),
                attempt.code
            )
        })
        .collect();
    Check {
        what: format!(
            "tenant {} was refused every allocation over quota",
            player.plan.name
        ),
        figure: format!(
            "{refused} of {} out of memory, {absent} not supported{}",
            player.attempts.len(),
            wrong.concat()
        ),
        holds: refused > 0 && wrong.is_empty(),
    }
}

fn time(phase: &Phase, player: &Player, share: f64) -> Check {
    Check {
        what: format!("tenant {}, {}", player.plan.name, phase.title),
        figure: format!(
            "{share:.1} % of GPU time, asked {:.0} %",
            player.plan.compute
        ),
        holds: share <= player.plan.compute + TOLERANCE,
    }
}

/// A cap is what is promised; whether it was also reached is shown for each phase.
fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    for phase in &outcome.phases {
        for (player, share) in outcome.tenants.iter().zip(&phase.shares) {
            let Some(share) = share else { continue };
            let missing = player.plan.compute - share;
            if missing > TOLERANCE {
                notes.push(format!(
                    "tenant {}, {}: got {missing:.1} points less than asked; a share is a cap here, \
                     not yet a guarantee",
                    player.plan.name, phase.title
                ));
            }
        }
    }
    if notes.is_empty() && !outcome.phases.is_empty() {
        notes.push("in every phase, every tenant also got all that it asked".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tenant::{Attempt, Done, Plan};

    fn outcome(share: f64, peak: u64, code: u32) -> Outcome {
        let player = Player {
            plan: Plan {
                name: "A",
                compute: 30.0,
                memory: 100,
            },
            done: Done {
                launches: 1,
                ..Done::default()
            },
            peak,
            attempts: vec![Attempt {
                call: "cuMemAlloc".into(),
                bytes: 1,
                code,
            }],
            ended_well: true,
        };
        let phase = Phase {
            title: "alone".into(),
            shares: vec![Some(share)],
        };
        Outcome {
            by_simulator: true,
            tenants: vec![player],
            phases: vec![phase],
        }
    }

    #[test]
    fn exactly_the_quota_holds() {
        let summary = judge(&outcome(30.0, 100, OUT_OF_MEMORY));
        assert!(summary.holds());
        assert!(summary.notes[0].contains("got all"), "{:?}", summary.notes);
    }

    #[test]
    fn one_byte_over_fails() {
        assert!(!judge(&outcome(30.0, 101, OUT_OF_MEMORY)).holds());
    }

    #[test]
    fn more_than_three_points_over_fails() {
        assert!(judge(&outcome(32.9, 100, OUT_OF_MEMORY)).holds());
        assert!(!judge(&outcome(33.1, 100, OUT_OF_MEMORY)).holds());
    }

    #[test]
    fn an_allocation_over_quota_that_is_given_or_fails_otherwise_fails() {
        assert!(!judge(&outcome(30.0, 100, 0)).holds());
        assert!(!judge(&outcome(30.0, 100, 1)).holds());
        assert!(
            !judge(&outcome(30.0, 100, NOT_SUPPORTED)).holds(),
            "nothing was shown"
        );
    }

    #[test]
    fn less_than_asked_holds_and_is_told() {
        let summary = judge(&outcome(20.0, 100, OUT_OF_MEMORY));
        assert!(summary.holds());
        assert!(
            summary.notes[0].contains("10.0 points less"),
            "{:?}",
            summary.notes
        );
    }

    #[test]
    fn a_demo_that_used_no_memory_shows_nothing() {
        assert!(!judge(&outcome(30.0, 0, OUT_OF_MEMORY)).holds());
    }
}
