//! What the library and the daemon say to each other on a socket: one question, one answer, both in one message each
//! (`SOCK_SEQPACKET`), with the descriptors of the two regions beside the answer. Numbers are little-endian.
//!
//! The daemon believes nothing in a question that it can ask the kernel. Either side may be newer than the other: the question
//! names the versions that the library speaks, from the oldest to the newest, and the answer the one that both will use, or
//! why there is none. A message may be longer than this version knows; what follows is of a newer version, and not read.

use crate::life::Identity;
use crate::{layout, policy};

/// Versions of this exchange that this code speaks.
pub const VERSIONS: (u16, u16) = (1, 1);
/// First bytes of a question.
pub const ASK: [u8; 4] = *b"GQAS";
/// First bytes of an answer.
pub const ANSWER: [u8; 4] = *b"GQAN";
/// Bytes of a question.
pub const QUESTION_BYTES: usize = 64;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 512;
/// No message of either side is longer, in any version.
pub const MOST: usize = 4096;
/// Bytes of an answer's text.
pub const TEXT: usize = ANSWER_BYTES - 16 - crate::policy::NAME;

/// The socket in a container, where its own directory is mounted.
pub const CONTAINER_SOCKET: &str = "/run/gpu-quota/container/attach.sock";
/// The name of the socket in each container's directory.
pub const SOCKET_NAME: &str = "attach.sock";
/// The daemon's directory where nobody says otherwise.
pub const STATE: &str = "/run/gpu-quota";
/// The socket for processes that no container's directory is mounted for.
pub const HOST_SOCKET: &str = "/run/gpu-quota/host.sock";
/// The cgroups that the daemon has rules for, one pattern a line: read by a process that finds nobody at [`HOST_SOCKET`].
pub const HOST_CGROUPS: &str = "/run/gpu-quota/host.cgroups";

/// What is asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be limited, and counted, in a slot of its own.
    Attach,
    /// To be shown the container's limits and usage. Needs no slot; the process is not noted.
    View,
}

/// A question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Versions of the exchange that the asker speaks, the oldest and the newest.
    pub versions: (u16, u16),
    /// What is asked for.
    pub purpose: Purpose,
    /// Version of the usage region that the asker knows ([`crate::layout::VERSION`]).
    pub usage: u32,
    /// Version of the policy region that the asker knows ([`crate::policy::VERSION`]).
    pub policy: u32,
    /// The asker's pid in its own pid namespace. The daemon compares it with what the kernel says.
    pub pid: u32,
    /// Its start time as it reads it itself, in clock ticks: another in a time namespace than outside of it.
    pub start: u64,
    /// Inode of its pid namespace.
    pub namespace: u64,
    /// As in [`crate::life::Identity`].
    pub image: u64,
}

/// Whether the asker gets what it asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Both regions are beside the answer, the policy first.
    Granted,
    /// No rule of the daemon is for the asker: on the host's socket only.
    NoRule,
    /// Refused for good; the text says why.
    Refused,
    /// Not now: ask again. The text says why.
    Later,
    /// No version in common; the text says which would do.
    Version,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The version that both use from here on.
    pub version: u16,
    /// Whether the asker gets it.
    pub status: Status,
    /// The container's name.
    pub container: String,
    /// For a person: why not.
    pub text: String,
}

/// What is wrong with a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than the shortest of its kind.
    Short(usize),
    /// Another kind of message.
    Magic,
    /// A value that has no meaning, at this offset.
    Value(usize),
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Short(bytes) => write!(f, "a message of {bytes} bytes is too short"),
            Self::Magic => f.write_str("not a message of this exchange"),
            Self::Value(offset) => write!(f, "a value without a meaning at byte {offset}"),
        }
    }
}

impl core::error::Error for Malformed {}

impl Question {
    /// What a process of this version asks for itself.
    #[must_use]
    pub fn of(me: &Identity, purpose: Purpose) -> Self {
        Self {
            versions: VERSIONS,
            purpose,
            usage: u32::try_from(layout::VERSION).unwrap_or(0),
            policy: u32::try_from(policy::VERSION).unwrap_or(0),
            pid: me.pid,
            start: me.start,
            namespace: me.namespace,
            image: me.image,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; QUESTION_BYTES] {
        let mut bytes = [0; QUESTION_BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&ASK);
        writer.put(&self.versions.0.to_le_bytes());
        writer.put(&self.versions.1.to_le_bytes());
        writer.put(&match self.purpose {
            Purpose::Attach => 1_u32.to_le_bytes(),
            Purpose::View => 2_u32.to_le_bytes(),
        });
        writer.put(&self.usage.to_le_bytes());
        writer.put(&self.policy.to_le_bytes());
        writer.put(&self.pid.to_le_bytes());
        writer.put(&self.start.to_le_bytes());
        writer.put(&self.namespace.to_le_bytes());
        writer.put(&self.image.to_le_bytes());
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// Whatever is not one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < QUESTION_BYTES {
            return Err(Malformed::Short(bytes.len()));
        }
        let mut reader = Reader(bytes);
        if reader.take::<4>() != ASK {
            return Err(Malformed::Magic);
        }
        let versions = (reader.half(), reader.half());
        if versions.0 > versions.1 {
            return Err(Malformed::Value(4));
        }
        let purpose = match reader.word() {
            1 => Purpose::Attach,
            2 => Purpose::View,
            _ => return Err(Malformed::Value(8)),
        };
        Ok(Self {
            versions,
            purpose,
            usage: reader.word(),
            policy: reader.word(),
            pid: reader.word(),
            start: reader.long(),
            namespace: reader.long(),
            image: reader.long(),
        })
    }
}

impl Answer {
    /// Its bytes; what does not fit of the texts is cut.
    #[must_use]
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put(&ANSWER);
        writer.put(&self.version.to_le_bytes());
        writer.put(&match self.status {
            Status::Granted => 0_u16.to_le_bytes(),
            Status::NoRule => 1_u16.to_le_bytes(),
            Status::Refused => 2_u16.to_le_bytes(),
            Status::Later => 3_u16.to_le_bytes(),
            Status::Version => 4_u16.to_le_bytes(),
        });
        writer.put(&[0; 8]);
        writer.text(&self.container, crate::policy::NAME);
        writer.text(&self.text, TEXT);
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// Whatever is not one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < ANSWER_BYTES {
            return Err(Malformed::Short(bytes.len()));
        }
        let mut reader = Reader(bytes);
        if reader.take::<4>() != ANSWER {
            return Err(Malformed::Magic);
        }
        let version = reader.half();
        let status = match reader.half() {
            0 => Status::Granted,
            1 => Status::NoRule,
            2 => Status::Refused,
            3 => Status::Later,
            4 => Status::Version,
            _ => return Err(Malformed::Value(6)),
        };
        let _ = reader.take::<8>();
        Ok(Self {
            version,
            status,
            container: reader.text(crate::policy::NAME),
            text: reader.text(TEXT),
        })
    }
}

/// The newest version that both speak.
#[must_use]
pub fn common(one: (u16, u16), other: (u16, u16)) -> Option<u16> {
    let newest = one.1.min(other.1);
    (newest >= one.0.max(other.0)).then_some(newest)
}

/// Writes into a buffer that is large enough.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let rest = core::mem::take(&mut self.0);
        let (place, rest) = rest.split_at_mut(bytes.len().min(rest.len()));
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.0 = rest;
    }

    /// At most `room - 1` bytes of a text, cut between characters, and zeroes.
    fn text(&mut self, text: &str, room: usize) {
        let mut end = text.len().min(room - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.put(text.get(..end).unwrap_or_default().as_bytes());
        self.0 = core::mem::take(&mut self.0)
            .get_mut(room - end..)
            .unwrap_or_default();
    }
}

/// Reads from a buffer; zeroes where it ends.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *bytes
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn text(&mut self, room: usize) -> String {
        let (bytes, rest) = self.0.split_at(room.min(self.0.len()));
        self.0 = rest;
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            versions: (1, 3),
            purpose: Purpose::View,
            usage: 3,
            policy: 1,
            pid: 4711,
            start: 1 << 40,
            namespace: 4_026_531_836,
            image: u64::MAX,
        }
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        assert_eq!(Question::decode(&question().encode()), Ok(question()));
        for status in [
            Status::Granted,
            Status::NoRule,
            Status::Refused,
            Status::Later,
            Status::Version,
        ] {
            let answer = Answer {
                version: 1,
                status,
                container: "a".repeat(63),
                text: "because".into(),
            };
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn a_longer_message_is_of_a_newer_version() {
        let mut bytes = question().encode().to_vec();
        bytes.extend([0xff; 100]);
        assert_eq!(Question::decode(&bytes), Ok(question()));
    }

    #[test]
    fn anything_else_is_refused() {
        let bytes = question().encode();
        assert_eq!(Question::decode(&bytes[..63]), Err(Malformed::Short(63)));
        assert_eq!(Question::decode(&[0; 64]), Err(Malformed::Magic));
        for (offset, value) in [(4, 9), (8, 0), (8, 3)] {
            let mut bytes = bytes;
            bytes[offset] = value;
            assert_eq!(Question::decode(&bytes), Err(Malformed::Value(offset)));
        }
        assert_eq!(Answer::decode(&bytes), Err(Malformed::Short(64)));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let answer = Answer {
            version: 1,
            status: Status::Refused,
            container: "ä".repeat(40),
            text: "ä".repeat(400),
        };
        let read = Answer::decode(&answer.encode()).unwrap();
        assert_eq!(read.container, "ä".repeat(31));
        assert_eq!(read.text, "ä".repeat((TEXT - 1) / 2));
    }

    #[test]
    fn the_newest_common_version_is_taken() {
        assert_eq!(common((1, 3), (2, 5)), Some(3));
        assert_eq!(common((4, 6), (2, 5)), Some(5));
        assert_eq!(common((1, 1), (2, 5)), None);
        assert_eq!(common((6, 7), (2, 5)), None);
    }
}
