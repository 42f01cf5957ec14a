//! What reads bytes of others, and the inputs that it takes.

use quota_abi::wire::{Answer, Purpose, Question, Status};
use quota_daemon::api::{Change, Kind, Refused, Request, Response};
use quota_daemon::config::{self, Config, File};
use quota_daemon::model::{Origin, Spec};

/// One reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// What the library asks.
    Question,
    /// What the daemon answers.
    Answer,
    /// A line at the control socket, and the change that it asks for.
    Request,
    /// A line from the daemon, as commands read it.
    Response,
    /// A configuration.
    Config,
    /// A size, a share, a device, a cgroup.
    Value,
}

/// All of them.
pub(crate) const ALL: [Target; 6] = [
    Target::Question,
    Target::Answer,
    Target::Request,
    Target::Response,
    Target::Config,
    Target::Value,
];

impl Target {
    /// How many of the inputs are for it.
    pub(crate) fn weight(self) -> u64 {
        match self {
            Self::Question => 10,
            Self::Request | Self::Answer => 4,
            Self::Response | Self::Config => 1,
            Self::Value => 2,
        }
    }

    /// Its folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Answer => "answer",
            Self::Request => "request",
            Self::Response => "response",
            Self::Config => "config",
            Self::Value => "value",
        }
    }

    pub(crate) fn is_text(self) -> bool {
        !matches!(self, Self::Question | Self::Answer)
    }

    /// Inputs made by the code itself; the others lie in the corpus.
    pub(crate) fn valid(self) -> Vec<Vec<u8>> {
        match self {
            Self::Question => [Purpose::Attach, Purpose::View].map(question).into(),
            Self::Answer => [
                Status::Granted,
                Status::NoRule,
                Status::Refused,
                Status::Later,
                Status::Version,
            ]
            .map(answer)
            .into(),
            Self::Request => requests(),
            Self::Response => {
                let refused = Refused {
                    kind: Kind::NotFound,
                    text: "no container \"a\"".into(),
                };
                let all = [
                    Response::Ok(serde_json::json!({"version": 1, "list": [1, -2.5, null]})),
                    Response::Error(refused),
                ];
                all.iter()
                    .map(|response| serde_json::to_vec(response).unwrap())
                    .collect()
            }
            Self::Config | Self::Value => Vec::new(),
        }
    }

    /// Lets it read; what it said, in words.
    pub(crate) fn feed(self, input: &[u8]) -> String {
        match self {
            Self::Question => match Question::decode(input) {
                Ok(question) => {
                    assert_eq!(Question::decode(&question.encode()), Ok(question));
                    format!("{:?}, of {:?}", question.purpose, common(question.versions))
                }
                Err(error) => format!("{error:?}"),
            },
            Self::Answer => match Answer::decode(input) {
                Ok(answer) => {
                    // Texts with bytes that are no characters grow when they are replaced, and are cut.
                    let again = Answer::decode(&answer.encode()).unwrap();
                    assert_eq!(
                        (again.status, again.version),
                        (answer.status, answer.version)
                    );
                    format!(
                        "{:?} {} {}",
                        answer.status,
                        answer.text.is_empty(),
                        answer.container.is_empty()
                    )
                }
                Err(error) => format!("{error:?}"),
            },
            Self::Request => match serde_json::from_slice::<Request>(input) {
                Ok(request) => {
                    let line = serde_json::to_vec(&request).unwrap();
                    assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
                    match request {
                        Request::Set(change) => changed(&change),
                        other => format!("{:?}", std::mem::discriminant(&other)),
                    }
                }
                Err(error) => error.to_string(),
            },
            Self::Response => match serde_json::from_slice::<Response>(input) {
                Ok(response) => format!("{:?}", std::mem::discriminant(&response)),
                Err(error) => error.to_string(),
            },
            Self::Config => {
                let file = File {
                    path: "config.toml".into(),
                    text: String::from_utf8_lossy(input).into_owned(),
                };
                match Config::read(&[file]) {
                    Ok(config) => format!("{} containers", config.containers.len().min(3)),
                    Err(problems) => problems.to_string(),
                }
            }
            Self::Value => values(&String::from_utf8_lossy(input)),
        }
    }
}

fn common(versions: (u16, u16)) -> Option<u16> {
    quota_abi::wire::common(versions, quota_abi::wire::VERSIONS)
}

fn question(purpose: Purpose) -> Vec<u8> {
    let question = Question {
        versions: quota_abi::wire::VERSIONS,
        purpose,
        usage: 3,
        policy: 1,
        pid: 4711,
        start: 123_456,
        namespace: 4_026_531_836,
        image: 1 << 40,
    };
    question.encode().into()
}

fn answer(status: Status) -> Vec<u8> {
    let answer = Answer {
        version: 1,
        status,
        container: "team-a".into(),
        text: "because it is so".into(),
    };
    answer.encode().into()
}

fn requests() -> Vec<Vec<u8>> {
    let container = || "team-a".to_owned();
    let change = Change {
        container: container(),
        create: true,
        device: Some("0".into()),
        memory: Some("4GiB".into()),
        compute: Some("30%".into()),
        ..Change::default()
    };
    let all = [
        Request::Status,
        Request::Processes {
            container: Some(container()),
        },
        Request::Processes { container: None },
        Request::Why {
            container: container(),
        },
        Request::Set(change),
        Request::Remove {
            container: container(),
        },
        Request::Reload,
        Request::Metrics,
    ];
    all.iter()
        .map(|request| serde_json::to_vec(request).unwrap())
        .collect()
}

/// What becomes of a container that is asked to change so.
fn changed(change: &Change) -> String {
    let mut spec = Spec {
        name: "team-a".into(),
        origin: Origin::Api,
        cgroups: Vec::new(),
        every: None,
        devices: std::collections::BTreeMap::new(),
    };
    match config::apply(change, &mut spec, &[], None) {
        Ok(()) => format!("{:?}", spec.every.map(|quota| quota.compute)),
        Err(refused) => {
            assert!(
                spec.every.is_none() && spec.devices.is_empty() && spec.cgroups.is_empty(),
                "half a change"
            );
            refused.text
        }
    }
}

fn values(text: &str) -> String {
    use config::values;
    let _ = (
        values::cgroup(text),
        values::address(text),
        values::log(text),
    );
    let _ = quota_daemon::model::check_name(text);
    let short = |wrong: &dyn std::fmt::Debug| format!("{wrong:?}");
    match (
        values::memory(text),
        values::share(text),
        values::device(text),
    ) {
        (Ok(bytes), Ok(_), _) => format!("both, {}", bytes.is_some()),
        (Ok(bytes), ..) => format!("memory, {}", bytes.is_some()),
        (_, Ok(ppm), _) => format!("share {ppm:?}"),
        (.., Ok(device)) => format!("device {device:?}"),
        (Err(memory), Err(share), _) => short(&(memory, share)),
    }
}
