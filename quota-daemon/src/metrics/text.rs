//! Families as text. The encoder writes OpenMetrics, whose counters are described under another name than they are sampled;
//! the older format, which everything reads, calls both by the same.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::family::{Family, Value};

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let mut family_encoder =
                encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                if labels.is_empty() {
                    sample(&mut family_encoder, family.kind, value)?;
                } else {
                    sample(
                        &mut family_encoder.encode_family(labels)?,
                        family.kind,
                        value,
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn sample(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> fmt::Result {
    match (kind, value) {
        (_, Value::Histogram(sum, count, buckets)) => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
        (MetricType::Counter, Value::Whole(number)) => {
            encoder.encode_counter::<NoLabelSet, u64, u64>(number, None)
        }
        (MetricType::Counter, Value::Real(number)) => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(number, None)
        }
        (_, Value::Whole(number)) => encoder.encode_gauge(number),
        (_, Value::Real(number)) => encoder.encode_gauge(number),
    }
}

/// The text of all families.
pub(super) fn write(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut open = String::new();
    // Writing to a string fails only where an encoder says so, and none of these does.
    if text::encode_registry(&mut open, &registry).is_err() {
        open.clear();
    }
    let mut older = String::with_capacity(open.len());
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let is_counter = counter(line) || lines.peek().is_some_and(|next| counter(next));
        older.push_str(&described(line, is_counter));
        older.push('\n');
    }
    older
}

/// A line of a description, with the name of the counter's samples.
fn described(line: &str, is_counter: bool) -> Cow<'_, str> {
    let mut words = line.splitn(4, ' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) if is_counter => {
            Cow::Owned(format!("# {what} {name}_total {rest}"))
        }
        _ => Cow::Borrowed(line),
    }
}
