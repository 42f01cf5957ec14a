//! The daemon that rules this process: where it is, and how long it is waited for.

use std::io::Read;
use std::path::{Path, PathBuf};

use cuda_headers::driver::CUresult;
use quota_abi::layout::SLOTS;
use quota_abi::life::Identity;
use quota_abi::policy::Policy;
use quota_abi::region::Mapped;
use quota_abi::wire::{CONTAINER_SOCKET, HOST_CGROUPS, HOST_SOCKET, Purpose, SOCKET_NAME};
use quota_abi::{cgroups, slots};

use super::exchange::{self, Reply};
use super::socket::now;
use crate::lock::nap;
use crate::report;

/// For how long a daemon that is away is waited for, ns: time enough to be replaced by a newer one.
const PATIENCE: u64 = 5_000_000_000;
/// The same for one that was waited for in vain before.
const IMPATIENCE: u64 = 50_000_000;
/// The first pause between two tries, ns, and the longest.
const PAUSES: (u64, u64) = (20_000_000, 100_000_000);
/// No more of the list of cgroups is read.
const MOST_CGROUPS: u64 = 1 << 20;

/// What a daemon has given to this process.
pub(super) struct Granted {
    pub(super) policy: &'static Policy,
    pub(super) region: Mapped,
    container: String,
    socket: PathBuf,
}

/// Why the program is stopped, and with what answer.
pub(super) struct Refusal {
    pub(super) code: CUresult,
    pub(super) text: String,
}

/// Whether this process is in a container that a daemon rules.
pub(super) fn in_container() -> bool {
    Path::new(CONTAINER_SOCKET)
        .parent()
        .is_some_and(Path::is_dir)
}

/// Finds the daemon that rules this process, and asks it. `None`: none does, and the variables count.
pub(super) fn seek(
    named: Option<&str>,
    purpose: Purpose,
    patient: bool,
) -> Result<Option<Granted>, Refusal> {
    let asker = Asker::new(purpose, patient);
    if in_container() {
        return asker.required(|| CONTAINER_SOCKET.into()).map(Some);
    }
    if let Some(named) = named {
        return asker.required(|| socket_at(Path::new(named))).map(Some);
    }
    match asker.ask(Path::new(HOST_SOCKET)) {
        Reply::NoRule => Ok(None),
        Reply::Away(_) if !is_listed() => Ok(None),
        Reply::Away(_) => asker.wait(|| HOST_SOCKET.into()),
        reply => asker.outcome(HOST_SOCKET.into(), reply),
    }
}

/// The socket that a path names: itself, or the one in it.
fn socket_at(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(SOCKET_NAME)
    } else {
        path.into()
    }
}

/// Whether the host's daemon has a rule for this process's cgroup.
fn is_listed() -> bool {
    let mut patterns = Vec::new();
    let read = std::fs::File::open(HOST_CGROUPS)
        .and_then(|file| file.take(MOST_CGROUPS).read_to_end(&mut patterns));
    if read.is_err() {
        return false;
    }
    let mut buffer = [0_u8; 4096];
    let own = cgroups::own(&mut buffer);
    patterns
        .split(|byte| *byte == b'\n')
        .any(|pattern| !pattern.is_empty() && cgroups::matches(pattern, own))
}

struct Asker {
    purpose: Purpose,
    me: Identity,
    deadline: u64,
}

impl Asker {
    fn new(purpose: Purpose, patient: bool) -> Self {
        let patience = if patient { PATIENCE } else { IMPATIENCE };
        Self {
            purpose,
            me: Identity::own(),
            deadline: now().saturating_add(patience),
        }
    }

    /// Asks a daemon that must answer.
    fn required(&self, place: impl Fn() -> PathBuf) -> Result<Granted, Refusal> {
        let socket = place();
        match self.wait(place)? {
            Some(granted) => Ok(granted),
            None => Err(Refusal {
                code: CUresult::CUDA_ERROR_NOT_PERMITTED,
                text: format!(
                    "the daemon at {} has no rule for this process; declare a container for its cgroup, or a default",
                    socket.display()
                ),
            }),
        }
    }

    fn ask(&self, socket: &Path) -> Reply {
        exchange::ask(socket, self.purpose, &self.me, self.deadline)
    }

    /// Asks until there is an answer, or patience has ended.
    fn wait(&self, place: impl Fn() -> PathBuf) -> Result<Option<Granted>, Refusal> {
        let mut pause = PAUSES.0;
        loop {
            let socket = place();
            let reply = self.ask(&socket);
            let left = self.deadline.saturating_sub(now());
            if !matches!(reply, Reply::Away(_)) || left == 0 {
                return self.outcome(socket, reply);
            }
            nap(libc::c_long::try_from(pause.min(left)).unwrap_or(0));
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn outcome(&self, socket: PathBuf, reply: Reply) -> Result<Option<Granted>, Refusal> {
        let place = socket.display();
        let (code, text) = match reply {
            Reply::Granted(policy, region, container) => {
                return Ok(Some(Granted {
                    policy,
                    region,
                    container,
                    socket,
                }));
            }
            Reply::NoRule => return Ok(None),
            Reply::Away(why) => (
                CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
                format!(
                    "no daemon at {place} for {} s: {why}; start it on the host with: quota-daemon serve",
                    PATIENCE / 1_000_000_000
                ),
            ),
            Reply::Refused(why) => (
                CUresult::CUDA_ERROR_NOT_PERMITTED,
                format!("refused by the daemon at {place}: {why}"),
            ),
        };
        Err(Refusal { code, text })
    }
}

impl Granted {
    /// Claims a slot in the region, after clearing up after the dead.
    pub(super) fn claim(self) -> Result<(Self, Identity, usize), Refusal> {
        let me = Identity::own();
        let Some(slot) = slots::claim_under(&self.region, &me, Some(&self.policy.dead)) else {
            return Err(Refusal {
                code: CUresult::CUDA_ERROR_NOT_PERMITTED,
                text: format!(
                    "container {} has {SLOTS} living processes on its GPUs, and room for no more; end some",
                    self.container
                ),
            });
        };
        report::info(format_args!(
            "attached to container {} by {} in slot {slot}",
            self.container,
            self.socket.display()
        ));
        Ok((self, me, slot))
    }
}
