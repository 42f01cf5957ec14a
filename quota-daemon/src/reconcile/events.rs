//! What is new, for the log.

use std::collections::BTreeMap;

use crate::gpu::Reading;
use crate::model::Uuid;
use crate::report::Unregistered;

/// Something that was not so at the reading before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process uses a device past the library.
    Stranger {
        /// The device.
        uuid: Uuid,
        /// Who.
        process: Unregistered,
    },
    /// One that was told of is on the device no more.
    Left {
        /// Who.
        pid: u32,
        /// The device.
        uuid: Uuid,
    },
    /// A device, or all of NVML, says less than it should.
    Trouble {
        /// The device; `None` for all.
        uuid: Option<Uuid>,
        /// Why.
        text: String,
    },
    /// It says everything again.
    Recovered {
        /// The device; `None` for all.
        uuid: Option<Uuid>,
    },
}

/// The troubles of the last reading.
#[derive(Default)]
pub(super) struct Troubles(BTreeMap<Option<Uuid>, String>);

impl Troubles {
    pub(super) fn compare(&mut self, reading: &Reading, events: &mut Vec<Event>) {
        let mut now = BTreeMap::new();
        match &reading.trouble {
            // What all devices suffer from is said once.
            Some(text) => drop(now.insert(None, text.clone())),
            None => {
                for device in &reading.devices {
                    if let Some(text) = &device.trouble {
                        now.insert(Some(device.device.uuid), text.clone());
                    }
                }
            }
        }
        let before = std::mem::replace(&mut self.0, now);
        for (uuid, text) in &self.0 {
            if before.get(uuid) != Some(text) {
                let (uuid, text) = (*uuid, text.clone());
                events.push(Event::Trouble { uuid, text });
            }
        }
        for uuid in before.into_keys() {
            if !self.0.contains_key(&uuid) {
                events.push(Event::Recovered { uuid });
            }
        }
    }
}

/// Writes the events to the log. One process makes at most one line in a while, whatever it does.
pub fn log(events: &[Event]) {
    for event in events {
        match event {
            Event::Stranger { uuid, process } => {
                let container = process.container.as_deref();
                let Some(more) = crate::log::allowed(container.unwrap_or(""), "unregistered")
                else {
                    continue;
                };
                tracing::warn!(
                    pid = process.pid,
                    program = process.program,
                    container,
                    device = %uuid,
                    bytes = process.bytes,
                    suppressed = (more > 0).then_some(more),
                    "unregistered process: it uses a GPU past the library",
                );
            }
            Event::Left { pid, uuid } => {
                tracing::info!(pid, device = %uuid, "unregistered process has left the GPU");
            }
            Event::Trouble {
                uuid: Some(uuid),
                text,
            } => {
                tracing::warn!(device = %uuid, "{text}");
            }
            Event::Trouble { uuid: None, text } => tracing::warn!("{text}"),
            Event::Recovered { uuid: Some(uuid) } => {
                tracing::info!(device = %uuid, "NVML answers again");
            }
            Event::Recovered { uuid: None } => tracing::info!("NVML answers again"),
        }
    }
}
