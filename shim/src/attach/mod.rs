//! Attaching: to the daemon's regions where there is a daemon for this process, else by its variables to those of its group.
//!
//! The container's own socket comes first, then the one that a variable names, then the host's, then the variables alone.
//! Under a daemon a variable can only lower a limit.

mod daemon;
mod environment;
mod exchange;
mod signals;
mod socket;
mod standalone;

use cuda_headers::driver::CUresult;
use quota_abi::group::Group;
use quota_abi::life::Identity;
use quota_abi::policy::Policy;
use quota_abi::region::Mapped;
use quota_abi::settings::Settings;
use quota_abi::wire::Purpose;

use self::daemon::{Granted, Refusal};
use crate::report;

/// What an attached process is made of before the driver can be asked for devices.
pub(crate) struct Attached {
    pub(crate) region: Mapped,
    pub(crate) slot: usize,
    pub(crate) me: Identity,
    pub(crate) settings: Settings,
    /// What the daemon says, if there is one.
    pub(crate) policy: Option<&'static Policy>,
}

/// What became of attaching.
pub(crate) enum Outcome {
    /// Limited, or counted with those who are.
    Attached(Box<Attached>),
    /// Nobody wants this process limited.
    Aside,
    /// It is to be limited, and cannot be: what `cuInit` answers. The reason has been said.
    Refused(CUresult),
}

/// Attaches this process.
pub(crate) fn attach() -> Outcome {
    let settings = match given() {
        Ok(Some(settings)) => settings,
        Ok(None) => return Outcome::Aside,
        Err(()) => return Outcome::Refused(CUresult::CUDA_ERROR_NOT_PERMITTED),
    };
    let mut foreign = settings.foreign();
    if let Some(first) = foreign.next() {
        let more = foreign.next();
        report::info(format_args!(
            "following {first}{}{}; GPU_QUOTA_MEMORY and GPU_QUOTA_COMPUTE would go before what other tools' variables say",
            if more.is_some() { " and " } else { "" },
            more.unwrap_or_default()
        ));
    }
    drop(foreign);
    let granted =
        signals::held_back(|| daemon::seek(settings.socket.as_deref(), Purpose::Attach, true));
    match granted.and_then(|granted| granted.map(Granted::claim).transpose()) {
        Ok(Some((granted, me, slot))) => Outcome::Attached(Box::new(Attached {
            region: granted.region,
            slot,
            me,
            settings,
            policy: Some(granted.policy),
        })),
        Ok(None) => join(settings),
        Err(Refusal { code, text }) => {
            report::stop(format_args!("{text}"));
            Outcome::Refused(code)
        }
    }
}

fn join(settings: Settings) -> Outcome {
    let limits = settings.limits();
    match standalone::join(settings) {
        Ok(Some(attached)) => Outcome::Attached(attached),
        Ok(None) => Outcome::Aside,
        Err(why) if limits => {
            report::stop(format_args!("{why}"));
            Outcome::Refused(CUresult::CUDA_ERROR_NOT_PERMITTED)
        }
        Err(why) => {
            report::info(format_args!("not counted: {why}"));
            Outcome::Aside
        }
    }
}

/// What the variables say; nothing in a program with privileges that the caller's environment must not steer, where only
/// the container's own socket counts. `None`: nobody limits this process. An error has been said.
fn given() -> Result<Option<Settings>, ()> {
    if environment::is_privileged() {
        if !daemon::in_container() {
            return Ok(None);
        }
        quiet_panics();
        return Ok(Some(Settings::default()));
    }
    quiet_panics();
    match environment::read_settings() {
        Ok(settings) => Ok(Some(settings)),
        Err(refusal) => {
            report::stop(format_args!("{refusal}"));
            Err(())
        }
    }
}

/// A quota as a viewer finds it.
pub(crate) struct Seen {
    pub(crate) settings: Settings,
    pub(crate) source: Source,
    /// `CUDA_VISIBLE_DEVICES`.
    pub(crate) visible: Option<String>,
}

/// Why a quota cannot be shown.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unseen {
    /// It cannot be had.
    ForGood,
    /// Its daemon is away.
    Away,
}

impl Unseen {
    /// Says why, but not again and again.
    fn because(refusal: &Refusal, first: bool) -> Self {
        let away = refusal.code == CUresult::CUDA_ERROR_SYSTEM_NOT_READY;
        if first || !away {
            report::stop(format_args!("{}", refusal.text));
        }
        if away { Self::Away } else { Self::ForGood }
    }
}

/// Where limits and usage are.
pub(crate) enum Source {
    /// In the variables, and in the region of this group once anybody has made it.
    Group(Group),
    /// In a daemon's regions.
    Daemon(&'static Policy, Mapped),
}

/// The quota of a process that asks NVML and never CUDA. Takes no slot and creates no file. `None` where nobody wants a
/// limit; an error has been said. What an attached process has found already is `known`: its variables may have changed
/// since. A daemon that is away is waited for if the asker is `patient`.
pub(crate) fn view(known: Option<&Attached>, patient: bool) -> Result<Option<Seen>, Unseen> {
    let (settings, daemon) = match known {
        Some(known) => {
            let daemon = known.policy.map(|policy| (policy, known.region));
            (known.settings.clone(), daemon)
        }
        None => {
            let Some(settings) = given().map_err(|()| Unseen::ForGood)? else {
                return Ok(None);
            };
            let named = settings.socket.as_deref();
            let found = signals::held_back(|| daemon::seek(named, Purpose::View, patient));
            let found = found.map_err(|refusal| Unseen::because(&refusal, patient))?;
            (settings, found.map(|found| (found.policy, found.region)))
        }
    };
    let source = match daemon {
        Some((policy, region)) => Source::Daemon(policy, region),
        None if settings.limits() => Source::Group(standalone::group(&settings)),
        None => return Ok(None),
    };
    let visible = environment::variable("CUDA_VISIBLE_DEVICES");
    Ok(Some(Seen {
        settings,
        source,
        visible: visible.map(|list| String::from_utf8_lossy(list).into_owned()),
    }))
}

/// Our own panics are answered by the guard; the standard library's message would surprise the application. The hook is
/// that of our copy of the standard library, not of an application written in Rust.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        report::stop(format_args!("a bug in the shim, passed over: {panic}"));
    }));
}
