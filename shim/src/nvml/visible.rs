//! The numbers under which CUDA would show devices to this process, for one that has not asked CUDA itself.
//!
//! CUDA numbers what `CUDA_VISIBLE_DEVICES` lists, in its order; NVML knows nothing of the variable and numbers everything.
//! Where nobody has set `CUDA_DEVICE_ORDER=PCI_BUS_ID` and the cards differ, CUDA puts the fastest first, which NVML cannot
//! tell: there a quota had better name UUIDs.

use core::ffi::c_uint;

use cuda_headers::nvml::{nvmlDevice_t, nvmlReturn_t};

use super::{ask, parts};

/// A device that `CUDA_VISIBLE_DEVICES` may name.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// `GPU-...` or `MIG-...`.
    name: String,
    /// For an instance, the place of its GPU among the candidates.
    parent: Option<usize>,
}

/// The UUIDs, as text, of the devices that CUDA would show under `list`, in its order. `None` while NVML does not answer.
pub(super) fn uuids(list: Option<&str>) -> Option<Vec<String>> {
    let candidates = candidates()?;
    let name = |place: usize| candidates.get(place).map(|found| found.name.clone());
    Some(
        visible(&candidates, list)
            .into_iter()
            .filter_map(name)
            .collect(),
    )
}

/// Everything that NVML knows, each GPU before its instances.
fn candidates() -> Option<Vec<Candidate>> {
    let mut count: c_uint = 0;
    // SAFETY: a live out-pointer.
    let answer = unsafe { ask!(nvmlDeviceGetCount_v2(&raw mut count)) };
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return None;
    }
    let mut found = Vec::new();
    for index in 0..count {
        let mut device = nvmlDevice_t(core::ptr::null_mut());
        // SAFETY: a live out-pointer.
        let answer = unsafe { ask!(nvmlDeviceGetHandleByIndex_v2(index, &raw mut device)) };
        if answer != nvmlReturn_t::NVML_SUCCESS {
            return None;
        }
        let parent = found.len();
        found.push(Candidate {
            name: parts::uuid(device)?,
            parent: None,
        });
        parts::each_instance(device, |instance| {
            if let Some(name) = parts::uuid(instance) {
                found.push(Candidate {
                    name,
                    parent: Some(parent),
                });
            }
        });
    }
    Some(found)
}

/// Places of the candidates that a process sees. The list ends at its first entry that names nothing; a device named twice
/// leaves none; a process sees one instance at most, and then no whole GPU; a GPU in MIG mode is not a device by itself.
fn visible(candidates: &[Candidate], list: Option<&str>) -> Vec<usize> {
    let mut chosen = Vec::new();
    match list {
        None => chosen.extend(0..candidates.len()),
        Some(list) => {
            for entry in list.split(',') {
                let Some(place) = named(candidates, entry.trim()) else {
                    break;
                };
                if chosen.contains(&place) {
                    return Vec::new();
                }
                chosen.push(place);
            }
        }
    }
    let parent = |place: usize| candidates.get(place).and_then(|found| found.parent);
    if let Some(instance) = chosen.iter().find(|place| parent(**place).is_some()) {
        return vec![*instance];
    }
    let first_of = |gpu: usize| {
        candidates
            .iter()
            .position(|found| found.parent == Some(gpu))
    };
    match chosen.iter().find_map(|gpu| first_of(*gpu)) {
        Some(instance) => vec![instance],
        None => chosen,
    }
}

/// The candidate of a number, counting whole GPUs, or of the beginning of a UUID that no other shares.
fn named(candidates: &[Candidate], entry: &str) -> Option<usize> {
    if entry.starts_with("GPU-") || entry.starts_with("MIG-") {
        let begins = |found: &Candidate| {
            let head = found.name.get(..entry.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(entry))
        };
        let mut all = candidates.iter().enumerate().filter(|(_, c)| begins(c));
        let place = all.next()?.0;
        return all.next().is_none().then_some(place);
    }
    // A number as C's `strtoul` reads it: what follows the digits is passed over.
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let number: usize = digits.get(..end)?.parse().ok()?;
    let whole = |(_, found): &(usize, &Candidate)| found.parent.is_none();
    let mut gpus = candidates.iter().enumerate().filter(whole);
    gpus.nth(number).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(names: &[(&str, Option<usize>)]) -> Vec<Candidate> {
        names
            .iter()
            .map(|(name, parent)| Candidate {
                name: (*name).into(),
                parent: *parent,
            })
            .collect()
    }

    #[test]
    fn every_form_of_the_list() {
        let three = candidates(&[("GPU-aa11", None), ("GPU-ab22", None), ("GPU-cc33", None)]);
        let see = |list| visible(&three, list);
        let none: [usize; 0] = [];
        assert_eq!(see(None), [0, 1, 2]);
        assert_eq!(see(Some("2,0")), [2, 0]);
        assert_eq!(see(Some(" 1 , 2 ")), [1, 2]);
        assert_eq!(see(Some("GPU-CC,0")), [2, 0]);
        assert_eq!(see(Some("GPU-a")), none, "a beginning of two");
        assert_eq!(see(Some("0,7,1")), [0]);
        assert_eq!(see(Some("0,-1,1")), [0]);
        for list in ["", "-1", "NoDevFiles", "0,1,0", "0,GPU-aa"] {
            assert_eq!(see(Some(list)), none, "{list}");
        }
    }

    #[test]
    fn one_instance_at_most() {
        let split = candidates(&[
            ("GPU-aa", None),
            ("MIG-11", Some(0)),
            ("MIG-12", Some(0)),
            ("GPU-bb", None),
        ]);
        assert_eq!(visible(&split, Some("MIG-12,MIG-11")), [2]);
        assert_eq!(visible(&split, Some("0")), [1]);
        assert_eq!(visible(&split, Some("1")), [3]);
        assert_eq!(visible(&split, None), [1]);
    }
}
