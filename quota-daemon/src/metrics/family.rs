//! A metric's name, its help, and its samples.

use prometheus_client::metrics::MetricType;

/// Labels of a sample, in order.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What a sample says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number that is one.
    Whole(u64),
    /// A share, or a time.
    Real(f64),
    /// Sum, count, and how many lie between each bound and the one before.
    Histogram(f64, u64, Vec<(f64, u64)>),
}

/// All samples of one name.
#[derive(Clone, Debug)]
pub(super) struct Family {
    /// Without the `_total` of a counter.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) samples: Vec<(Labels, Value)>,
}

impl Family {
    /// Of a value that goes up and down.
    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Gauge)
    }

    /// Of one that only rises. The name gets its `_total` later.
    pub(super) fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Counter)
    }

    /// Of how values are distributed.
    pub(super) fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, MetricType::Histogram)
    }

    fn new(name: &'static str, help: &'static str, kind: MetricType) -> Self {
        Self {
            name,
            help,
            kind,
            samples: Vec::new(),
        }
    }

    /// Adds a sample, where there is one.
    pub(super) fn add(&mut self, labels: &Labels, value: impl Into<Option<Value>>) {
        if let Some(value) = value.into() {
            self.samples.push((labels.clone(), value));
        }
    }

    /// The same with one sample that needs no labels.
    pub(super) fn with(mut self, value: impl Into<Option<Value>>) -> Self {
        self.add(&Vec::new(), value);
        self
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Whole(u64::from(number))
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Whole(u64::from(yes))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}
