//! What a container or a group used of a device's time, in words: the same for a daemon's container and for a group without one.

use crate::output::count;
use crate::report::Share;
use crate::units::{percent, time};

/// The counters of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// GPU time charged, ns.
    pub charged: u64,
    /// Launches.
    pub launches: u64,
    /// Time that launches waited, summed over threads, ns.
    pub waited: u64,
    /// Launches that waited.
    pub waits: u64,
    /// Of these, launches let through without time for them.
    pub forced: u64,
    /// GPU time that was settled by measurement, ns.
    pub measured: u64,
    /// What had been charged for the same work before, by estimate, ns.
    pub estimated: u64,
}

impl From<&Share> for Used {
    fn from(share: &Share) -> Self {
        Self {
            charged: share.gpu_time_ns,
            launches: share.launches,
            waited: share.waited_ns,
            waits: share.waits,
            forced: share.forced,
            measured: share.measured_ns,
            estimated: share.estimated_ns,
        }
    }
}

impl From<quota_abi::bucket::Reading> for Used {
    fn from(reading: quota_abi::bucket::Reading) -> Self {
        Self {
            charged: reading.used,
            launches: reading.launches,
            waited: reading.waited,
            waits: reading.waits,
            forced: reading.forced,
            measured: reading.measured,
            estimated: reading.estimated,
        }
    }
}

impl Used {
    /// In words; `None` where nothing was counted.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.launches == 0 && self.charged == 0 {
            return None;
        }
        let mut text = format!(
            "{} of GPU time used by {}",
            time(self.charged),
            count(self.launches, "launch", "launches")
        );
        if self.waits > 0 {
            let waits = count(self.waits, "launch", "launches");
            text.push_str(&format!("; {waits} waited {} in all", time(self.waited)));
        }
        if self.forced > 0 {
            text.push_str(&format!(
                ", {} of them let through on credit, since work in flight might have waited for them",
                self.forced
            ));
        }
        if self.measured > 0 {
            text.push_str(&format!(
                "; {} measured, where {} had been estimated{}",
                time(self.measured),
                time(self.estimated),
                self.off().unwrap_or_default()
            ));
        }
        Some(text)
    }

    /// How far estimates were off.
    #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
    fn off(&self) -> Option<String> {
        let (measured, estimated) = (self.measured as f64, self.estimated as f64);
        let off = (estimated - measured) * 100.0 / measured;
        let rounded = (off.abs() * 10.0).round() / 10.0;
        let direction = if off > 0.0 { "more" } else { "less" };
        (rounded > 0.0).then(|| format!(", {} {direction}", percent(rounded)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_was_used_waited_for_and_estimated() {
        let mut used = Used::default();
        assert_eq!(used.text(), None);
        used.charged = 900 * MS;
        used.launches = 1;
        assert_eq!(used.text().unwrap(), "900 ms of GPU time used by 1 launch");
        used = Used {
            launches: 9_000,
            waited: 1_500 * MS,
            waits: 80,
            forced: 2,
            measured: 800 * MS,
            estimated: 820 * MS,
            ..used
        };
        assert_eq!(
            used.text().unwrap(),
            "900 ms of GPU time used by 9000 launches; 80 launches waited 1.5 s in all, 2 of them let through on credit, \
             since work in flight might have waited for them; 800 ms measured, where 820 ms had been estimated, 2.5 % more"
        );
        used.estimated = used.measured;
        assert!(used.text().unwrap().ends_with("800 ms had been estimated"));
    }
}
