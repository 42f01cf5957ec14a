//! The variables of cGPU: `ALIYUN_COM_GPU_MEM_CONTAINER` is how much of each device a container has.
//!
//! It is a number without a unit. Whoever sets it counts devices in GiB or in MiB, and says how large one is in the same
//! unit (`ALIYUN_COM_GPU_MEM_DEV`), sometimes the unit too (`ALIYUN_COM_GPU_MEM_UNIT`). Where neither is said nobody can tell,
//! and a limit that may be a thousand times what was meant is refused.

use super::{Device, PerDevice, Reader, Refusal};
use crate::spelling::{self, Wrong};

/// Memory of the container on each device.
const CONTAINER: &str = "ALIYUN_COM_GPU_MEM_CONTAINER";
/// Memory of a device.
const DEVICE: &str = "ALIYUN_COM_GPU_MEM_DEV";
/// What both are counted in.
const UNIT: &str = "ALIYUN_COM_GPU_MEM_UNIT";
/// Whether none of this is meant.
const DISABLE: &str = "CGPU_DISABLE";
/// No device has less than this in MiB, and none has as much in GiB.
const APART: u64 = 1024;

/// The limit that they say; empty if they say none.
pub(super) fn memory<'a, F: Fn(&str) -> Option<&'a [u8]>>(
    reader: &Reader<F>,
) -> Result<PerDevice<u64>, Refusal> {
    let mut limits = PerDevice::default();
    if reader.read(DISABLE, "true", flag)?.unwrap_or(false) {
        return Ok(limits);
    }
    let Some(amount) = reader.read(CONTAINER, "4", spelling::count)? else {
        return Ok(limits);
    };
    let device = reader.read(DEVICE, "16", spelling::count)?;
    let unit = match (reader.read(UNIT, "GiB", unit)?, device) {
        (Some(unit), _) => unit,
        (None, Some(device)) if device < APART => 1 << 30,
        (None, Some(_)) => 1 << 20,
        (None, None) => return Err(refusal(DEVICE, String::new(), Wrong::Empty, "16")),
    };
    let too_large = || refusal(CONTAINER, amount.to_string(), Wrong::TooLarge, "4");
    if device.is_some_and(|device| amount > device) {
        return Err(too_large());
    }
    let bytes = amount
        .checked_mul(unit)
        .filter(|bytes| *bytes <= spelling::LARGEST)
        .ok_or_else(too_large)?;
    limits.rows.push((Device::Every, Some(bytes)));
    limits.origin.variable = CONTAINER.to_owned();
    Ok(limits)
}

fn refusal(variable: &str, value: String, wrong: Wrong, example: &'static str) -> Refusal {
    Refusal {
        variable: variable.to_owned(),
        value,
        wrong,
        example,
    }
}

/// Binary in either spelling: that is how devices are counted there.
fn unit(text: &str) -> Result<u64, Wrong> {
    match text {
        "GiB" | "GB" => Ok(1 << 30),
        "MiB" | "MB" => Ok(1 << 20),
        "" => Err(Wrong::Empty),
        _ => Err(Wrong::Unit),
    }
}

fn flag(text: &str) -> Result<bool, Wrong> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        "" => Err(Wrong::Empty),
        _ => Err(Wrong::Word),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, read};
    use super::*;

    fn given(variables: &[(&str, &'static str)]) -> Result<Settings, Refusal> {
        read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.as_bytes())
        })
    }

    fn limit(variables: &[(&str, &'static str)]) -> Option<u64> {
        given(variables).unwrap().memory.of(Some(0), &[0; 16])
    }

    #[test]
    fn the_unit_is_that_of_the_device_or_as_said() {
        for (variables, bytes) in [
            (&[(CONTAINER, "2"), (DEVICE, "15")][..], 2 << 30),
            (&[(CONTAINER, "3803"), (DEVICE, "7606")], 3803 << 20),
            (&[(CONTAINER, "8"), (DEVICE, "22"), (UNIT, "GiB")], 8 << 30),
            (&[(CONTAINER, "8"), (UNIT, "GB")], 8 << 30),
            (&[(CONTAINER, "512"), (UNIT, "MiB")], 512 << 20),
            (&[(CONTAINER, "80"), (DEVICE, "80")], 80 << 30),
            (
                &[(CONTAINER, "2"), (DEVICE, "15"), (DISABLE, "false")],
                2 << 30,
            ),
        ] {
            assert_eq!(limit(variables), Some(bytes), "{variables:?}");
            assert!(given(variables).unwrap().limits());
        }
    }

    #[test]
    fn without_the_containers_part_nothing_is_limited() {
        assert_eq!(given(&[(DEVICE, "15")]).unwrap(), Settings::default());
        let off = [(CONTAINER, "2"), (DEVICE, "15"), (DISABLE, "true")];
        assert_eq!(given(&off).unwrap(), Settings::default());
    }

    #[test]
    fn other_names_go_before_it() {
        let cgpu = [(CONTAINER, "2"), (DEVICE, "15")];
        for (name, value, limited) in [
            ("GPU_QUOTA_MEMORY", "1GiB", Some(1 << 30)),
            ("GPU_QUOTA_MEMORY", "none", None),
            ("CUDA_DEVICE_MEMORY_LIMIT", "3g", Some(3 << 30)),
        ] {
            let all = [cgpu[0], cgpu[1], (name, value)];
            assert_eq!(limit(&all), limited, "{name}={value}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_variable_and_an_example() {
        for (variables, culprit, wrong) in [
            (
                &[(CONTAINER, ""), (DEVICE, "15")][..],
                CONTAINER,
                Wrong::Empty,
            ),
            (&[(CONTAINER, "0"), (DEVICE, "15")], CONTAINER, Wrong::Zero),
            (
                &[(CONTAINER, "-1"), (DEVICE, "15")],
                CONTAINER,
                Wrong::Number,
            ),
            (
                &[(CONTAINER, "2.5"), (DEVICE, "15")],
                CONTAINER,
                Wrong::Number,
            ),
            (
                &[(CONTAINER, "2GiB"), (DEVICE, "15")],
                CONTAINER,
                Wrong::Unit,
            ),
            (
                &[(CONTAINER, "16"), (DEVICE, "15")],
                CONTAINER,
                Wrong::TooLarge,
            ),
            (&[(CONTAINER, "2")], DEVICE, Wrong::Empty),
            (&[(CONTAINER, "2"), (DEVICE, "0")], DEVICE, Wrong::Zero),
            (&[(CONTAINER, "2"), (DEVICE, "x")], DEVICE, Wrong::Number),
            (&[(CONTAINER, "2"), (UNIT, "TiB")], UNIT, Wrong::Unit),
            (&[(DISABLE, "yes")], DISABLE, Wrong::Word),
        ] {
            let refusal = given(variables).unwrap_err();
            assert_eq!(
                (refusal.variable.as_str(), refusal.wrong),
                (culprit, wrong),
                "{variables:?}"
            );
            // What is written as an example mends it, beside the other variables.
            let mut mended: Vec<_> = variables.to_vec();
            mended.retain(|(name, _)| *name != culprit);
            mended.push((culprit, refusal.example));
            assert!(given(&mended).is_ok(), "{mended:?}");
        }
    }

    #[test]
    fn where_a_limit_came_from_is_known_if_the_name_is_not_ours() {
        let settings = given(&[(CONTAINER, "2"), (DEVICE, "15")]).unwrap();
        assert_eq!(settings.foreign().collect::<Vec<_>>(), [CONTAINER]);
        let both = [
            ("CUDA_DEVICE_MEMORY_LIMIT", "3g"),
            ("CUDA_DEVICE_SM_LIMIT_0", "30"),
        ];
        let settings = given(&both).unwrap();
        let names: Vec<_> = settings.foreign().collect();
        assert_eq!(
            names,
            ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT_0"]
        );
        let ours = given(&[("GPU_QUOTA_MEMORY", "3g")]).unwrap();
        assert_eq!(ours.foreign().count(), 0);
    }
}
