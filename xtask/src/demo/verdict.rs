//! Whether every quota held, from the figures alone.

use quota_abi::settings::CONTEXT_DEFAULT;

use super::stage::{Outcome, Player};
use super::table::gib;
use super::tenant::Plan;

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

/// One promise.
pub(super) struct Check {
    pub(super) what: &'static str,
    /// Where it was broken; empty when it holds.
    pub(super) broken: Vec<String>,
}

impl Summary {
    pub(super) fn holds(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.broken.is_empty())
    }
}

/// Judges the figures.
pub(super) fn judge(outcome: &Outcome) -> Summary {
    let each = |broken: fn(&Player) -> Option<String>| {
        let name = |player: &Player| {
            broken(player).map(|what| format!("tenant {} {what}", player.plan.name))
        };
        outcome.tenants.iter().filter_map(name).collect()
    };
    let checks = vec![
        Check {
            what: "no tenant held a byte more than its memory",
            broken: each(memory),
        },
        Check {
            what: "every allocation over quota was refused",
            broken: each(attempts),
        },
        Check {
            what: "no tenant got more than 3 points above its share",
            broken: time(outcome),
        },
        Check {
            what: "every tenant ran to its end",
            broken: each(end),
        },
    ];
    let source = if outcome.by_simulator {
        "by the simulator's own account"
    } else {
        "by the tenants: bytes held, and work done times its calibrated cost"
    };
    Summary {
        source,
        checks,
        notes: notes(outcome),
    }
}

fn memory(player: &Player) -> Option<String> {
    let (peak, limit) = (player.peak, player.plan.memory);
    if peak == 0 {
        return Some("held nothing, so nothing was shown".into());
    }
    (peak > limit).then(|| format!("held {peak} bytes, {} over its memory", peak - limit))
}

fn attempts(player: &Player) -> Option<String> {
    if player.refused_attempts() == 0 {
        return Some("was refused nothing, so nothing was shown".into());
    }
    let wrong: Vec<_> = player
        .attempts
        .iter()
        .filter(|attempt| !matches!(attempt.code, OUT_OF_MEMORY | NOT_SUPPORTED))
        .map(|attempt| {
            format!(
                "{} of {} answered {}",
                attempt.call,
                gib(attempt.bytes),
                attempt.code
            )
        })
        .collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

fn time(outcome: &Outcome) -> Vec<String> {
    let mut broken = Vec::new();
    for phase in &outcome.phases {
        for (player, share) in outcome.tenants.iter().zip(&phase.shares) {
            let Plan { name, compute, .. } = player.plan;
            if let Some(share) = share.filter(|share| *share > compute + TOLERANCE) {
                let title = &phase.title;
                broken.push(format!(
                    "{title}: tenant {name} got {share:.1} % of {compute:.0} %"
                ));
            }
        }
    }
    broken
}

fn end(player: &Player) -> Option<String> {
    if player.done.launches == 0 {
        return Some("launched nothing, so nothing was shown".into());
    }
    (!player.ended_well).then(|| "failed".into())
}

impl Player {
    /// Allocations over the quota that were answered out of memory.
    pub(super) fn refused_attempts(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.code == OUT_OF_MEMORY)
            .count()
    }
}

/// Why nobody held all of its memory; and, since a cap is what is promised, whether it was also reached in each phase.
fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = time_notes(outcome);
    if outcome
        .tenants
        .iter()
        .any(|player| player.peak < player.plan.memory)
    {
        notes.push(format!(
            "each tenant's memory has to do for its own context too, counted as {}; the rest it took in whole blocks",
            gib(CONTEXT_DEFAULT)
        ));
    }
    notes
}

fn time_notes(outcome: &Outcome) -> Vec<String> {
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
    use crate::demo::stage::Phase;
    use crate::demo::tenant::{Attempt, Done};

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
    fn memory_that_was_not_held_is_explained() {
        let told = |peak| {
            let summary = judge(&outcome(30.0, peak, OUT_OF_MEMORY));
            summary.notes.iter().any(|note| note.contains("context"))
        };
        assert!(told(99));
        assert!(!told(100));
    }

    #[test]
    fn a_demo_that_used_no_memory_shows_nothing() {
        assert!(!judge(&outcome(30.0, 0, OUT_OF_MEMORY)).holds());
    }
}
