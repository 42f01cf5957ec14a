//! Groups that a chore makes for its own programs, and clears away.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quota_abi::group::Group;

/// A group of this chore's own. Its shared memory goes with it: no process of the group removes it,
/// since any of them may be killed.
pub(crate) struct OwnGroup {
    name: String,
}

impl OwnGroup {
    /// A group that no other run of any chore has.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: format!("{name}-{}", std::process::id()),
        }
    }

    /// What `GPU_QUOTA_GROUP` is set to.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let path = Group::named(&self.name).path();
        // It may never have been made.
        let _ = fs::remove_file(Path::new(OsStr::from_bytes(path.as_bytes())));
    }
}
