//! Names: of the kind of our devices, and of a device.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `vendor/class`, as in `--device vendor/class=name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind {
    vendor: String,
    class: String,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            vendor: "gpu-quota.io".into(),
            class: "container".into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor, self.class)
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.to_string()
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (vendor, class) = text
            .split_once('/')
            .ok_or("has no '/'; write for example gpu-quota.io/container")?;
        part("vendor", vendor, "._-")?;
        // A dot in a class is of version 0.6.0, which many runtimes do not read.
        part("class", class, "_-")?;
        Ok(Self {
            vendor: vendor.into(),
            class: class.into(),
        })
    }
}

/// Two characters at least: the library that Podman 4 reads specs with panics at one.
fn part(what: &str, text: &str, signs: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let ends = text.ends_with(|c: char| c.is_ascii_alphanumeric());
    if text.len() >= 2 && begins && ends && text.chars().all(allowed) {
        return Ok(());
    }
    Err(format!(
        "has the {what} {text:?}; it takes two or more letters, digits and '{}', begins with a letter and ends with a letter or digit, \
         as in gpu-quota.io/container",
        signs
            .chars()
            .map(String::from)
            .collect::<Vec<_>>()
            .join("', '")
    ))
}

impl Kind {
    /// What a person types behind `--device`.
    #[must_use]
    pub fn device(&self, name: &str) -> String {
        format!("{self}={name}")
    }

    /// The file of all configured containers.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}-{}.json", self.vendor, self.class)
    }

    /// The file of one container that the daemon serves.
    #[must_use]
    pub fn file_of(&self, container: &str) -> String {
        format!("{}{container}.json", self.prefix())
    }

    /// The container that such a file is of.
    #[must_use]
    pub fn container_of<'a>(&self, file: &'a str) -> Option<&'a str> {
        file.strip_prefix(&self.prefix())?.strip_suffix(".json")
    }

    /// What the names of such files begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}-{}_", self.vendor, self.class)
    }
}

/// Whether a container's name can be a device's. The rules for containers allow a little more.
///
/// # Errors
/// What is wrong with it, for a person.
pub fn check_device(name: &str) -> Result<(), String> {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || matches!(c, '_' | '-' | '.');
    if name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner) {
        return Ok(());
    }
    Err(format!(
        "container {name:?} can have no device: the name of one begins and ends with a letter or digit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_vendor_and_class() {
        for good in ["gpu-quota.io/container", "a1/b_2", "X.y-z_9/class-1"] {
            assert_eq!(good.parse::<Kind>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "/",
            "a",
            "vendor",
            "vendor/",
            "/class",
            "v/class",
            "vendor/c",
            "1vendor/class",
            "vendor/1class",
            "vendor-/class",
            "vendor/class.x",
            "vendor/class/x",
            "ven dor/class",
            "vendor/cl=ass",
            "vendor/class_",
        ] {
            let wrong = bad.parse::<Kind>().unwrap_err();
            assert!(wrong.contains("gpu-quota.io/container"), "{bad}: {wrong}");
        }
        assert_eq!(
            Kind::default(),
            Kind::default().to_string().parse().unwrap()
        );
    }

    #[test]
    fn files_are_of_one_container_or_of_all() {
        let kind = Kind::default();
        assert_eq!(kind.device("a"), "gpu-quota.io/container=a");
        assert_eq!(kind.file(), "gpu-quota.io-container.json");
        let file = kind.file_of("team-a.x_1");
        assert_eq!(file, "gpu-quota.io-container_team-a.x_1.json");
        assert_eq!(kind.container_of(&file), Some("team-a.x_1"));
        for other in [
            kind.file().as_str(),
            "nvidia.com-gpu_a.json",
            "gpu-quota.io-container_a.yaml",
        ] {
            assert_eq!(kind.container_of(other), None, "{other}");
        }
    }

    #[test]
    fn devices_have_narrower_names_than_containers() {
        for good in ["a", "7", "team-a.train_2", "0x"] {
            assert_eq!(check_device(good), Ok(()));
            assert_eq!(crate::model::check_name(good), Ok(()));
        }
        for bad in ["_a", "-a", "a-", "a.", "a_", "", "a/b", "ä"] {
            assert!(check_device(bad).is_err(), "{bad}");
        }
    }
}
