//! Who may ask. The socket's mode does most of it; this holds where somebody has changed that, too.

use std::os::unix::net::UnixStream;

use crate::api::{Kind, Refused};
use crate::config::Group;
use crate::peer::{self, Peer};

/// Whom to admit.
pub(super) struct Access {
    /// The daemon's user.
    own: u32,
    group: Option<u32>,
}

impl Access {
    pub(super) fn new(group: Option<&Group>) -> Self {
        Self {
            own: rustix::process::geteuid().as_raw(),
            group: group.map(|group| group.gid),
        }
    }

    /// The peer, if it may ask.
    pub(super) fn admit(&self, stream: &UnixStream) -> Result<Peer, Refused> {
        let forbidden = |text| Refused {
            kind: Kind::Forbidden,
            text,
        };
        let asked = peer::of(stream).and_then(|peer| Ok((peer, peer::groups(stream)?)));
        let (peer, groups) =
            asked.map_err(|error| forbidden(format!("who asks cannot be told: {error}")))?;
        if self.may(peer, &groups) {
            return Ok(peer);
        }
        let who = match self.group {
            Some(gid) => format!("root and members of group {gid} may"),
            None => {
                "only root may; [daemon] group = \"...\" in the configuration lets others".into()
            }
        };
        Err(forbidden(format!(
            "user {} may not use the control socket: {who}",
            peer.uid
        )))
    }

    fn may(&self, peer: Peer, groups: &[u32]) -> bool {
        let in_group = |gid| peer.gid == gid || groups.contains(&gid);
        peer.uid == 0 || peer.uid == self.own || self.group.is_some_and(in_group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_the_daemons_user_and_the_group_may() {
        let access = Access {
            own: 7,
            group: Some(50),
        };
        let peer = |uid, gid| Peer { pid: 1, uid, gid };
        assert!(access.may(peer(0, 1), &[]));
        assert!(access.may(peer(7, 1), &[]));
        assert!(access.may(peer(8, 50), &[]));
        assert!(access.may(peer(8, 1), &[2, 50]));
        assert!(!access.may(peer(8, 1), &[2]));
        let nobody = Access {
            own: 7,
            group: None,
        };
        assert!(!nobody.may(peer(8, 0), &[0, 50]));
    }
}
