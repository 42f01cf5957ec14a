//! One imported allocation, and who is charged for it.

use cuda_headers::driver::CUdeviceptr;
use quota_abi::exports::Row;

use super::super::{number_of, reserve};
use super::ask;
use crate::driver::relaxed;
use crate::process::Process;

/// An allocation of another process that this process has mapped.
#[derive(Copy, Clone)]
pub(super) struct Share {
    bytes: u64,
    device: u16,
    /// Mappings of it in this process.
    mappings: u32,
    charged: Charged,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Charged {
    /// To another process of the group, whose row this process holds.
    Elsewhere(Row),
    /// To this process, which has made a row for the others, if there was room.
    Here(Option<Row>),
    /// To nobody: the driver does not say how large it is, or where.
    Nowhere,
}

/// A row that is held ahead of the import, so that an exporter that frees meanwhile leaves its charge here.
#[derive(Copy, Clone)]
pub(super) struct Ahead {
    device: u16,
    row: Row,
}

/// Holds the row of an allocation that is about to be imported, if somebody of the group is charged for it and this process
/// has not imported it already.
pub(super) fn look_ahead(process: &Process, key: u64) -> Option<Ahead> {
    if process.memory.ipc.shares.get(key).is_some() {
        return None;
    }
    process.devices.iter().find_map(|device| {
        let row = device.hold(key)?;
        let device = number_of(device);
        Some(Ahead { device, row })
    })
}

/// Lets go of a row that is not needed.
pub(super) fn forget(process: &Process, ahead: Option<Ahead>) {
    if let Some(Ahead { device, row }) = ahead
        && let Some(device) = process.devices.by_number(device.into())
    {
        device.let_go(row);
    }
}

/// Counts one more mapping of an allocation, which is charged if it is the first in the group. `false` if it does not fit.
pub(super) fn join(
    process: &Process,
    key: u64,
    address: CUdeviceptr,
    ahead: Option<Ahead>,
) -> bool {
    let shares = &process.memory.ipc.shares;
    let again = |share: &mut Share| share.mappings += 1;
    if shares.with(key, again).is_some() {
        forget(process, ahead);
        return true;
    }
    let Some(fresh) = charge(process, key, address, ahead) else {
        return false;
    };
    // Another thread may have been as quick: one of the two charges goes back.
    let _ = shares.get_or_insert(key, fresh);
    let kept = shares.with(key, |share| {
        share.mappings += 1;
        share.charged == fresh.charged
    });
    if kept == Some(false) {
        give_back(process, fresh);
    }
    true
}

/// Counts one mapping less, and gives back what is charged for the last.
pub(super) fn leave(process: &Process, key: u64) {
    let shares = &process.memory.ipc.shares;
    shares.with(key, |share| {
        share.mappings = share.mappings.saturating_sub(1);
    });
    if let Some(share) = shares.remove_if(key, |share| share.mappings == 0) {
        give_back(process, share);
    }
}

/// Finds the row of whoever is charged for an allocation, or charges it here. `None` if it does not fit.
fn charge(
    process: &Process,
    key: u64,
    address: CUdeviceptr,
    ahead: Option<Ahead>,
) -> Option<Share> {
    if let Some(Ahead { device, row }) = ahead {
        return Some(Share {
            bytes: 0,
            device,
            mappings: 0,
            charged: Charged::Elsewhere(row),
        });
    }
    let asked = relaxed(|| Some((ask::device(process, address)?, ask::size(address)?)));
    let Some((device, bytes)) = asked else {
        return Some(Share {
            bytes: 0,
            device: 0,
            mappings: 0,
            charged: Charged::Nowhere,
        });
    };
    let charged = match device.hold(key) {
        Some(row) => Charged::Elsewhere(row),
        None => {
            reserve(process, device, bytes)?.keep();
            Charged::Here(device.publish(key, bytes))
        }
    };
    Some(Share {
        bytes,
        device: number_of(device),
        mappings: 0,
        charged,
    })
}

fn give_back(process: &Process, share: Share) {
    let Some(device) = process.devices.by_number(share.device.into()) else {
        return;
    };
    match share.charged {
        Charged::Elsewhere(row) => device.let_go(row),
        Charged::Here(row) => {
            if let Some(row) = row {
                // Whoever holds it is charged from here on.
                device.withdraw(row);
            }
            device.refund(share.bytes);
        }
        Charged::Nowhere => {}
    }
}
