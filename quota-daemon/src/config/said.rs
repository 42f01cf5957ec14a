//! What somebody says about a quota, in a table or in a request: some of its values, and the rest stay as they are.

use quota_abi::spelling::Ppm;

use super::fields::Fields;
use super::problem::Problems;
use super::values;
use crate::model::{Compute, Quota};

/// The keys of a quota.
pub(super) const KEYS: [&str; 7] = [
    "memory", "compute", "weight", "cap", "priority", "observe", "context",
];

/// Values that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) memory: Option<Option<u64>>,
    pub(super) time: Option<Time>,
    /// With a weight only.
    pub(super) cap: Option<Option<Ppm>>,
    pub(super) priority: Option<i32>,
    pub(super) observe: Option<bool>,
    pub(super) context: Option<Option<u64>>,
}

/// How GPU time is to be ruled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// A hard cap, or none.
    Compute(Option<Ppm>),
    /// A weight.
    Weight(u32),
}

/// Both at once.
pub(super) const EITHER: &str =
    "compute is a hard cap and weight a share with loans: give one of them";
/// A cap by itself.
pub(super) const ALONE: &str = "cap bounds a weight: give weight as well, or compute alone";

impl Said {
    /// What a table says.
    pub(super) fn read(fields: &Fields<'_>, problems: &mut Problems) -> Self {
        let compute = fields.spelled("compute", "30%", values::share, problems);
        let weight = fields.integer("weight", values::weight, problems);
        if fields.has("compute") && fields.has("weight") {
            fields.wrong_key("weight", EITHER, problems);
        } else if fields.has("compute") && fields.has("cap") {
            fields.wrong_key("cap", ALONE, problems);
        }
        let priority = |number: i64| {
            i32::try_from(number)
                .map_err(|_| "is no priority; write for example priority = 1".into())
        };
        Self {
            memory: fields.spelled("memory", "4GiB", values::memory, problems),
            time: weight.map(Time::Weight).or(compute.map(Time::Compute)),
            cap: fields.spelled("cap", "50%", values::share, problems),
            priority: fields.integer("priority", priority, problems),
            observe: fields.boolean("observe", problems),
            context: fields.spelled("context", "400MiB", values::context, problems),
        }
    }

    /// Whether it says how much there may be, rather than only how that is handled.
    pub(super) fn limits(&self) -> bool {
        self.memory.is_some() || self.time.is_some() || self.cap.is_some()
    }

    /// The quota with these values in it.
    ///
    /// # Errors
    /// A cap without a weight.
    pub(super) fn over(&self, quota: Quota) -> Result<Quota, &'static str> {
        let before = match quota.compute {
            Compute::Share { weight, cap_ppm } => Some((weight, cap_ppm)),
            Compute::Free | Compute::Limit { .. } => None,
        };
        let compute = match (self.time, self.cap, before) {
            (Some(Time::Compute(_)), Some(_), _) | (None, Some(_), None) => return Err(ALONE),
            (Some(Time::Compute(None)), None, _) => Compute::Free,
            (Some(Time::Compute(Some(ppm))), None, _) => Compute::Limit { ppm },
            (Some(Time::Weight(weight)), cap, before) => Compute::Share {
                weight,
                cap_ppm: cap.unwrap_or(before.and_then(|(_, cap)| cap)),
            },
            (None, Some(cap_ppm), Some((weight, _))) => Compute::Share { weight, cap_ppm },
            (None, None, _) => quota.compute,
        };
        Ok(Quota {
            memory_bytes: self.memory.unwrap_or(quota.memory_bytes),
            compute,
            priority: self.priority.unwrap_or(quota.priority),
            context_bytes: self.context.unwrap_or(quota.context_bytes),
            observe: self.observe.unwrap_or(quota.observe),
        })
    }
}
