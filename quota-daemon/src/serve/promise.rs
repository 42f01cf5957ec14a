//! Whether what is promised to containers is there: the sum of their memory limits on a device against its memory.

use std::fmt;

use crate::config::Oversubscribe;
use crate::model::{Device, Spec, Uuid};
use crate::units::size;

/// More is promised than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    device: Uuid,
    name: String,
    promised: u64,
    there: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of memory would be promised of {} ({}), which has {}: {} too much; lower a limit, or set `oversubscribe`",
            size(self.promised),
            self.device,
            self.name,
            size(self.there),
            size(self.promised.saturating_sub(self.there)),
        )
    }
}

impl std::error::Error for Broken {}

/// Bytes of a device promised to these containers. What has no limit is no promise.
#[must_use]
pub(super) fn promised<'a>(specs: impl Iterator<Item = &'a Spec>, device: &Device) -> u64 {
    specs
        .filter_map(|spec| spec.quota(device)?.memory_bytes)
        .fold(0, u64::saturating_add)
}

/// Compares it with what there is.
///
/// # Errors
/// The first device of which more would be promised.
pub(super) fn check<'a>(
    specs: impl Iterator<Item = &'a Spec> + Clone,
    devices: &[Device],
    oversubscribe: Oversubscribe,
) -> Result<(), Broken> {
    for device in devices {
        let promised = promised(specs.clone(), device);
        let most = oversubscribe.most(device.memory_bytes);
        if most.is_some_and(|most| promised > most) {
            return Err(Broken {
                device: device.uuid,
                name: device.name.clone(),
                promised,
                there: device.memory_bytes,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Origin, Quota, Selector};
    use std::collections::BTreeMap;

    fn spec(every: Option<u64>, first: Option<u64>) -> Spec {
        let quota = |bytes| Quota {
            memory_bytes: Some(bytes),
            ..Quota::default()
        };
        Spec {
            name: "a".into(),
            origin: Origin::Config,
            cgroups: Vec::new(),
            every: every.map(quota),
            devices: first
                .map(|bytes| (Selector::Index(0), quota(bytes)))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        }
    }

    #[test]
    fn the_sum_over_containers_is_compared_on_each_device() {
        let device = |index: u32| Device {
            uuid: Uuid([u8::try_from(index).unwrap() + 1; 16]),
            index,
            name: "GPU".into(),
            memory_bytes: 100,
            mig: false,
        };
        let devices = [device(0), device(1)];
        let fits = [
            spec(Some(50), None),
            spec(Some(50), Some(50)),
            spec(None, None),
        ];
        assert_eq!(check(fits.iter(), &devices, Oversubscribe::No), Ok(()));
        let too_much = [spec(Some(50), Some(51)), spec(Some(50), None)];
        let broken = check(too_much.iter(), &devices, Oversubscribe::No).unwrap_err();
        assert_eq!((broken.device, broken.promised), (devices[0].uuid, 101));
        let overflow = [spec(Some(u64::MAX), None), spec(Some(u64::MAX), None)];
        assert!(check(overflow.iter(), &devices, Oversubscribe::No).is_err());
        assert_eq!(
            check(too_much.iter(), &devices, Oversubscribe::By(1.5)),
            Ok(())
        );
        assert_eq!(check(overflow.iter(), &devices, Oversubscribe::Any), Ok(()));
    }
}
