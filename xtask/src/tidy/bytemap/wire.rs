//! Where the fields of the two messages lie: found by sending them. No structure has their layout, so nothing could be asserted.

use quota_abi::wire::{ANSWER_BYTES, Answer, MOST, Purpose, QUESTION_BYTES, Question, Status};

use super::Fact;

const NOTHING: Question = Question {
    versions: (0, 0),
    purpose: Purpose::Attach,
    usage: 0,
    policy: 0,
    pid: 0,
    start: 0,
    namespace: 0,
    image: 0,
};

/// Sizes, offsets of fields, and the numbers that stand for a purpose and a status.
pub(super) fn facts() -> Vec<Fact> {
    let mut facts = vec![
        fact("MOST", MOST),
        fact("Question", QUESTION_BYTES),
        fact("Answer", ANSWER_BYTES),
    ];
    facts.extend(question());
    facts.extend(answer());
    facts
}

fn fact(name: &str, value: usize) -> Fact {
    Fact {
        name: name.into(),
        value: value as u64,
    }
}

/// The first byte in which two messages differ.
fn differ(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .position(|(a, b)| a != b)
        .unwrap_or(one.len())
}

fn question() -> Vec<Fact> {
    let place = |question: Question| differ(&NOTHING.encode(), &question.encode());
    let set = |change: fn(&mut Question)| {
        let mut question = NOTHING;
        change(&mut question);
        question
    };
    let view = set(|q| q.purpose = Purpose::View);
    let purpose = place(view);
    let mut facts: Vec<_> = [
        ("oldest", set(|q| q.versions.0 = 1)),
        ("newest", set(|q| q.versions.1 = 1)),
        ("purpose", view),
        ("usage", set(|q| q.usage = 1)),
        ("policy", set(|q| q.policy = 1)),
        ("pid", set(|q| q.pid = 1)),
        ("start", set(|q| q.start = 1)),
        ("namespace", set(|q| q.namespace = 1)),
        ("image", set(|q| q.image = 1)),
    ]
    .into_iter()
    .map(|(name, question)| fact(name, place(question)))
    .collect();
    for (name, question) in [("Attach", NOTHING), ("View", view)] {
        let number = question.encode().get(purpose).copied().unwrap_or(0);
        facts.push(fact(name, number.into()));
    }
    facts
}

fn answer() -> Vec<Fact> {
    let make = |version, status, container: &str, text: &str| {
        Answer {
            version,
            status,
            container: container.into(),
            text: text.into(),
        }
        .encode()
    };
    let nothing = make(0, Status::Granted, "", "");
    let status = differ(&nothing, &make(0, Status::NoRule, "", ""));
    let mut facts = vec![
        fact(
            "version",
            differ(&nothing, &make(1, Status::Granted, "", "")),
        ),
        fact("status", status),
        fact(
            "container",
            differ(&nothing, &make(0, Status::Granted, "a", "")),
        ),
        fact("text", differ(&nothing, &make(0, Status::Granted, "", "a"))),
    ];
    for (name, value) in [
        ("Granted", Status::Granted),
        ("NoRule", Status::NoRule),
        ("Refused", Status::Refused),
        ("Later", Status::Later),
        ("Version", Status::Version),
    ] {
        let number = make(0, value, "", "").get(status).copied().unwrap_or(0);
        facts.push(fact(name, number.into()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_they_are_written() {
        let place = |name: &str| {
            let mut facts = facts().into_iter();
            facts.find(|fact| fact.name == name).map(|fact| fact.value)
        };
        assert_eq!(place("newest"), Some(6));
        assert_eq!(place("start"), Some(24));
        assert_eq!(place("text"), Some(80));
        assert_eq!(place("Later"), Some(3));
    }
}
