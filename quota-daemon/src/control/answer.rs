//! One request, one answer.

use serde::Serialize;
use serde_json::Value;
use tracing::info;

use super::Shared;
use crate::api::{Change, Kind, Refused, Request, Response};
use crate::peer::Peer;

/// The line that answers a line.
pub(super) fn answer(line: &[u8], shared: &Shared, peer: Peer) -> String {
    match serde_json::from_slice(line) {
        Ok(request) => match carry_out(request, shared, peer) {
            Ok(value) => text(&Response::Ok(value)),
            Err(refused) => error(refused),
        },
        Err(wrong) => error(Refused {
            kind: Kind::Usage,
            text: format!(
                "this is no request that version {} knows: {wrong}",
                env!("CARGO_PKG_VERSION")
            ),
        }),
    }
}

/// The line of a refusal.
pub(super) fn error(refused: Refused) -> String {
    text(&Response::Error(refused))
}

fn carry_out(request: Request, shared: &Shared, peer: Peer) -> Result<Value, Refused> {
    let manager = &*shared.manager;
    let Peer { pid, uid, .. } = peer;
    match request {
        Request::Status => value(&manager.status()),
        Request::Processes { container } => value(&manager.processes(container.as_deref())?),
        Request::Why { container } => value(&manager.why(&container)?),
        Request::Set(change) => {
            let container = manager.set(&change)?;
            let name = &container.name;
            info!(pid, uid, "container {name} was changed: {}", words(&change));
            value(&container)
        }
        Request::Remove { container } => {
            manager.remove(&container)?;
            info!(pid, uid, "container {container} was removed");
            Ok(Value::Null)
        }
        Request::Reload => {
            let lines = manager.reload()?;
            info!(
                pid,
                uid,
                "the configuration was read again: {}",
                lines.join("; ")
            );
            value(&lines)
        }
        Request::Metrics => Ok(Value::String((shared.metrics)(&manager.status()))),
    }
}

/// What a change says, for the log.
fn words(change: &Change) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(change) else {
        return String::new();
    };
    let silent = |key: &str, value: &Value| {
        let flag = ["create", "transient"].contains(&key);
        key == "container" || value.is_null() || (flag && *value == Value::Bool(false))
    };
    let said = fields.iter().filter(|(key, value)| !silent(key, value));
    let said: Vec<_> = said.map(|(key, value)| format!("{key}={value}")).collect();
    said.join(" ")
}

fn value(of: &impl Serialize) -> Result<Value, Refused> {
    serde_json::to_value(of).map_err(|error| Refused {
        kind: Kind::Failed,
        text: format!("the answer cannot be written: {error}"),
    })
}

fn text(response: &Response) -> String {
    serde_json::to_string(response).unwrap_or_else(|_| "{}".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_logged_with_what_it_says() {
        let change = Change {
            container: "a".into(),
            memory: Some("1g\n".into()),
            weight: Some(5),
            observe: Some(false),
            ..Change::default()
        };
        assert_eq!(words(&change), "memory=\"1g\\n\" observe=false weight=5");
    }
}
