//! Every test of a memory limit is a test of the limit: what each group was allowed is noted when its clients start, and
//! compared with the simulator's account when the simulation ends. The account keeps the highest sum that it saw at any
//! instant, so nothing that a test did not look at escapes.
//!
//! Compared are the exact families; pools and graphs are reserved by the driver in steps of its own, and corrected. Groups
//! of which a client had no limit, or no shim, are not compared.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use quota_abi::settings::{self, PerDevice};

use crate::account::Account;

/// What the clients of one simulation were allowed.
#[derive(Debug, Default)]
pub(crate) struct Limits(Mutex<BTreeMap<String, Groups>>);

/// The groups that the simulator accounts under one label, and what each of their clients was allowed.
type Groups = BTreeMap<String, Vec<PerDevice<u64>>>;

impl Limits {
    /// Notes a client that is about to start with these variables, and answers under which label it is to be accounted.
    pub(crate) fn note(&self, environment: &[(OsString, OsString)]) -> Option<String> {
        let variable = |name: &str| {
            let last = environment.iter().rev();
            last.clone()
                .find(|(variable, _)| variable == name)
                .map(|(_, value)| value.as_os_str())
        };
        let group = variable("GPU_QUOTA_GROUP")?.to_str()?.to_owned();
        let label = variable("GPU_SIM_TENANT").unwrap_or(OsStr::new(&group));
        let label = label.to_str()?.to_owned();
        // A client whose variables are refused at `cuInit` gets no memory.
        let settings = settings::read(|name| variable(name).map(OsStr::as_bytes)).ok()?;
        let by_order = variable("CUDA_VISIBLE_DEVICES").is_some() && settings.memory.by_number();
        let limits = if by_order {
            // The numbers are those of an order that the account does not know.
            PerDevice::default()
        } else {
            settings.memory
        };
        let mut labels = self.0.lock().unwrap();
        let groups = labels.entry(label.clone()).or_default();
        groups.entry(group).or_default().push(limits);
        Some(label)
    }

    /// What the account shows above the limits, in words; how many sums were compared.
    pub(crate) fn check(&self, account: &Account) -> Result<usize, String> {
        let labels = self.0.lock().unwrap();
        let mut compared = 0;
        for (number, device) in account.devices.iter().enumerate() {
            for tenant in &device.tenants {
                let Some(allowed) = labels
                    .get(&tenant.label)
                    .and_then(|groups| allowed(groups, number, &device.uuid))
                else {
                    continue;
                };
                compared += 1;
                if tenant.peak_exact > allowed {
                    return Err(format!(
                        "group {} held {} bytes of device {number} at once, of {allowed} allowed",
                        tenant.label, tenant.peak_exact
                    ));
                }
            }
        }
        Ok(compared)
    }
}

/// The sum over the groups of the most that a client of each was allowed; `None` if one of them had no limit.
fn allowed(groups: &Groups, number: usize, uuid: &str) -> Option<u64> {
    let number = u32::try_from(number).ok();
    let uuid = bytes(uuid);
    groups
        .values()
        .map(|clients| {
            let limits = clients.iter().map(|limits| limits.of(number, &uuid));
            limits.collect::<Option<Vec<u64>>>()?.into_iter().max()
        })
        .sum()
}

/// The bytes of a UUID as NVML prints it.
fn bytes(uuid: &str) -> [u8; 16] {
    let (_, digits) = uuid.split_once('-').unwrap();
    let digits: String = digits.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).unwrap().to_be_bytes()
}
