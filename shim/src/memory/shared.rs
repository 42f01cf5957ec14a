//! Memory that processes of the group share: an importer is charged only where nobody of the group is.

use quota_abi::exports::{self, Row};

use crate::device::Device;

#[allow(dead_code, reason = "not every family needs all of them")]
impl Device {
    /// Lets importers of the group find memory that this process is charged for. `None`: the table is full, they are
    /// charged.
    pub(crate) fn publish(&self, key: u64, bytes: u64) -> Option<Row> {
        exports::publish(self.region, self.slot, self.index, key, bytes)
    }

    /// The memory is freed, whoever had imported it.
    pub(crate) fn withdraw(&self, row: Row) {
        exports::withdraw(self.region, self.slot, row);
    }

    /// Whether somebody of the group is charged for memory of this key, which stays so until it is let go.
    pub(crate) fn hold(&self, key: u64) -> Option<Row> {
        exports::hold(self.region, self.slot, self.index, key)
    }

    /// The last reference to an import is gone.
    pub(crate) fn let_go(&self, row: Row) {
        exports::let_go(self.region, self.slot, row);
    }
}
