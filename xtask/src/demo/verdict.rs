//! Whether every quota held, from the figures alone.

use quota_abi::settings::CONTEXT_DEFAULT;

use super::stage::{Outcome, Phase, Player};
use super::table::gib;
use super::tenant::Plan;

/// How far from what it asked a tenant may be, in points.
const TOLERANCE: f64 = 2.0;

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
            what: "no tenant got more than 2 points above its share",
            broken: time(outcome, |off| off > TOLERANCE),
        },
        Check {
            what: exactness(outcome),
            broken: time(outcome, |off| off < -TOLERANCE),
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

/// What is promised of the lower side, in which phases.
fn exactness(outcome: &Outcome) -> &'static str {
    if outcome.phases.iter().all(|phase| phase.exact) {
        "no tenant got more than 2 points below it, alone or beside the other"
    } else {
        "no tenant got more than 2 points below it alone"
    }
}

/// Who is how many points off what it asked, in all phases, where that is `wrong`; below it only where the phase promises so.
fn time(outcome: &Outcome, wrong: fn(f64) -> bool) -> Vec<String> {
    let of = |phase| {
        let all = misses(&outcome.tenants, phase).into_iter();
        all.filter(move |(off, _)| wrong(*off))
            .map(|(_, text)| text)
    };
    outcome.phases.iter().flat_map(of).collect()
}

/// The points by which tenants miss what a phase promises, and in words.
pub(super) fn misses(tenants: &[Player], phase: &Phase) -> Vec<(f64, String)> {
    let each = tenants.iter().zip(&phase.shares);
    let missed = each.filter_map(|(player, share)| {
        let Plan { name, compute, .. } = player.plan;
        let off = (*share)? - compute;
        let missed = off > TOLERANCE || (phase.exact && off < -TOLERANCE);
        let text = format!(
            "{}: tenant {name} got {:.1} % of {compute:.0} %",
            phase.title,
            compute + off
        );
        missed.then_some((off, text))
    });
    missed.collect()
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
    for phase in &outcome.phases {
        if let Some(stalled) = phase.stalled {
            notes.push(format!(
                "{}: this machine stood still for {:.0} ms meanwhile",
                phase.title,
                stalled.as_secs_f64() * 1000.0
            ));
        }
    }
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
            if missing > TOLERANCE && !phase.exact {
                notes.push(format!(
                    "tenant {}, {}: got {missing:.1} points less than asked; without a daemon a share is a cap \
                     and no guarantee",
                    player.plan.name, phase.title
                ));
            }
        }
    }
    let missed = |phase| !misses(&outcome.tenants, phase).is_empty();
    if notes.is_empty() && !outcome.phases.is_empty() && !outcome.phases.iter().any(missed) {
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
            exact: true,
            stalled: None,
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
    fn more_than_two_points_off_fails() {
        for holds in [28.1, 31.9] {
            assert!(
                judge(&outcome(holds, 100, OUT_OF_MEMORY)).holds(),
                "{holds}"
            );
        }
        for fails in [27.9, 32.1] {
            assert!(
                !judge(&outcome(fails, 100, OUT_OF_MEMORY)).holds(),
                "{fails}"
            );
        }
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
    fn less_than_asked_beside_others_without_a_daemon_holds_and_is_told() {
        let mut outcome = outcome(20.0, 100, OUT_OF_MEMORY);
        outcome.phases[0].exact = false;
        let summary = judge(&outcome);
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
