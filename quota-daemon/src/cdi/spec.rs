//! A file that container runtimes read: the part of the Container Device Interface that our devices need.
//!
//! Everything stands with the device, nothing beside the devices for all: edits there are refused by the schema of newer
//! versions.

use serde::{Deserialize, Serialize};

use super::Kind;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The version of the interface, never newer than what the file needs.
    pub cdi_version: String,
    /// The kind of all its devices.
    pub kind: Kind,
    /// The devices.
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its name, which is the container's.
    pub name: String,
    /// What becomes of a container that has it.
    pub container_edits: Edits,
}

/// What becomes of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edits {
    /// Variables of its first process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What is mounted.
    #[serde(default)]
    pub mounts: Vec<Mount>,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// On the host.
    pub host_path: String,
    /// In the container.
    pub container_path: String,
    /// As of mount(8).
    #[serde(default)]
    pub options: Vec<String>,
}

impl Spec {
    /// A file of these devices.
    #[must_use]
    pub fn new(kind: &Kind, devices: Vec<Device>) -> Self {
        Self {
            cdi_version: version(&devices).into(),
            kind: kind.clone(),
            devices,
        }
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> String {
        // Structs of strings: there is nothing that could not be written.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }
}

/// The oldest version with all that these devices need, so that runtimes of any age read them: names that begin with a digit are of
/// 0.5.0, the rest has been there since 0.3.0.
fn version(devices: &[Device]) -> &'static str {
    let digit = |device: &Device| device.name.starts_with(|c: char| c.is_ascii_digit());
    if devices.iter().any(digit) {
        "0.5.0"
    } else {
        "0.3.0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> Device {
        Device {
            name: name.into(),
            container_edits: Edits {
                env: Vec::new(),
                mounts: vec![Mount {
                    host_path: "/h".into(),
                    container_path: "/c".into(),
                    options: vec!["ro".into()],
                }],
            },
        }
    }

    #[test]
    fn keys_are_spelt_as_runtimes_read_them() {
        let spec = Spec::new(&Kind::default(), vec![device("a")]);
        let expected = r#"{
  "cdiVersion": "0.3.0",
  "kind": "gpu-quota.io/container",
  "devices": [
    {
      "name": "a",
      "containerEdits": {
        "mounts": [
          {
            "hostPath": "/h",
            "containerPath": "/c",
            "options": [
              "ro"
            ]
          }
        ]
      }
    }
  ]
}
"#;
        assert_eq!(spec.text(), expected);
        assert_eq!(serde_json::from_str::<Spec>(expected).unwrap(), spec);
    }

    #[test]
    fn the_version_is_the_oldest_that_does() {
        let version =
            |names: &[&str]| version(&names.iter().copied().map(device).collect::<Vec<_>>());
        assert_eq!(version(&["a", "b7"]), "0.3.0");
        assert_eq!(version(&["a", "7b"]), "0.5.0");
    }
}
