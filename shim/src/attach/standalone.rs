//! Without a daemon: the variables, and a region that the processes of a group make themselves.

use quota_abi::group::Group;
use quota_abi::life::Identity;
use quota_abi::region::{Cause, Error, Mapped};
use quota_abi::settings::Settings;
use quota_abi::slots;

use super::Attached;
use crate::report;

/// A process without limits joins a region that others of its group have made, so that their limits count it too; it
/// makes none.
pub(super) fn join(settings: Settings) -> Result<Option<Box<Attached>>, String> {
    let path = group(&settings).path();
    let mend = |error: Error| {
        // Something else under its name, or no place for any such file?
        let place = match &error.cause {
            Cause::System(_, error) => !matches!(
                error.raw_os_error(),
                Some(libc::EISDIR | libc::ELOOP | libc::ENXIO | libc::EACCES | libc::EPERM)
            ),
            Cause::Size(_) | Cause::Magic | Cause::Version(_) => false,
        };
        let mend = if place {
            "the processes of a group share a file there: /dev/shm must be a writable tmpfs with 512 KiB to spare"
        } else {
            "remove the file if no process uses it, or set GPU_QUOTA_GROUP to another name"
        };
        format!("{error}; {mend}")
    };
    let region = if settings.limits() {
        Mapped::open_or_create(&path).map_err(mend)?
    } else {
        match Mapped::open(&path).map_err(mend)? {
            Some(region) => region,
            None => return Ok(None),
        }
    };
    let me = Identity::own();
    let Some(slot) = slots::claim(&region, &me) else {
        return Err(format!(
            "{} is full of living processes; end some, or set GPU_QUOTA_GROUP to another name",
            path.to_string_lossy()
        ));
    };
    report::info(format_args!(
        "attached to {} in slot {slot}",
        path.to_string_lossy()
    ));
    Ok(Some(Box::new(Attached {
        region,
        slot,
        me,
        settings,
        policy: None,
    })))
}

pub(super) fn group(settings: &Settings) -> Group {
    settings
        .group
        .as_deref()
        .map_or_else(Group::of_this_container, Group::named)
}
