//! `CUDA_VISIBLE_DEVICES`, as NVIDIA documents it: indices, UUIDs or their unambiguous beginnings,
//! MIG UUIDs; the list ends at the first entry that is none of these.

/// A device of the simulation, as far as choosing among devices goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// `GPU-…` or `MIG-…`.
    pub(crate) name: String,
    /// For a MIG device, the index (in the list of candidates) of its whole GPU.
    pub(crate) parent: Option<usize>,
}

/// Which candidates a process sees, in its own order. `list` is the variable's value, if it is set.
pub(crate) fn visible(candidates: &[Candidate], list: Option<&str>) -> Vec<usize> {
    let chosen = match list {
        None => (0..candidates.len()).collect(),
        Some(list) => chosen(candidates, list),
    };
    // A GPU in MIG mode is not a CUDA device: its instances are. A process sees one MIG device
    // only, and then no whole GPU.
    let split = |i: usize| candidates.iter().any(|c| c.parent == Some(i));
    let is_mig = |i: &usize| candidates.get(*i).is_some_and(|c| c.parent.is_some());
    if let Some(first) = chosen.iter().copied().find(is_mig) {
        return vec![first];
    }
    if let Some(whole) = chosen.iter().copied().find(|i| split(*i)) {
        let instance = candidates.iter().position(|c| c.parent == Some(whole));
        return instance.into_iter().collect();
    }
    chosen
}

fn chosen(candidates: &[Candidate], list: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for entry in list.split(',') {
        let Some(device) = resolve(candidates, entry.trim()) else {
            break;
        };
        if found.contains(&device) {
            // Naming a device twice leaves the process with none at all.
            return Vec::new();
        }
        found.push(device);
    }
    found
}

fn resolve(candidates: &[Candidate], entry: &str) -> Option<usize> {
    if entry.starts_with("GPU-") || entry.starts_with("MIG-") {
        let mut matches = candidates.iter().enumerate().filter(|(_, c)| {
            c.name
                .get(..entry.len())
                .is_some_and(|n| n.eq_ignore_ascii_case(entry))
        });
        let (device, _) = matches.next()?;
        // A beginning that fits two devices names neither.
        return matches.next().is_none().then_some(device);
    }
    let index = leading_number(entry)?;
    // Indices count whole GPUs only.
    let mut whole = candidates
        .iter()
        .enumerate()
        .filter(|(_, c)| c.parent.is_none());
    whole.nth(index).map(|(device, _)| device)
}

/// The number that the text begins with, as C's `strtoul` reads it: `2gpu` is 2.
fn leading_number(text: &str) -> Option<usize> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(names: &[&str]) -> Vec<Candidate> {
        names
            .iter()
            .map(|n| Candidate {
                name: (*n).to_owned(),
                parent: None,
            })
            .collect()
    }

    fn three() -> Vec<Candidate> {
        gpus(&["GPU-aa11", "GPU-ab22", "GPU-cc33"])
    }

    #[test]
    fn indices_select_and_reorder() {
        let see = |list| visible(&three(), Some(list));
        assert_eq!(see("2,0"), [2, 0]);
        assert_eq!(see(" 1 , 2 "), [1, 2]);
        assert_eq!(see("1gpu"), [1]);
        assert_eq!(visible(&three(), None), [0, 1, 2]);
    }

    #[test]
    fn the_first_invalid_entry_ends_the_list() {
        let see = |list| visible(&three(), Some(list));
        assert_eq!(see("0,7,1"), [0]);
        assert_eq!(see("-1,0"), [] as [usize; 0]);
        assert_eq!(see("NoDevFiles"), [] as [usize; 0]);
        assert_eq!(see(""), [] as [usize; 0]);
        assert_eq!(see("1,,0"), [1]);
    }

    #[test]
    fn uuids_may_be_shortened_while_unambiguous() {
        let see = |list| visible(&three(), Some(list));
        assert_eq!(see("GPU-cc,GPU-aa11"), [2, 0]);
        assert_eq!(see("GPU-AB"), [1]);
        assert_eq!(see("GPU-a,0"), [] as [usize; 0]);
        assert_eq!(see("GPU-cc33,GPU-zz,GPU-aa11"), [2]);
    }

    #[test]
    fn a_device_named_twice_leaves_none() {
        assert_eq!(visible(&three(), Some("0,1,0")), [] as [usize; 0]);
        assert_eq!(visible(&three(), Some("0,GPU-aa")), [] as [usize; 0]);
    }

    #[test]
    fn one_mig_device_at_most() {
        let mut devices = gpus(&["GPU-aa", "GPU-bb"]);
        for name in ["MIG-11", "MIG-12"] {
            devices.push(Candidate {
                name: name.to_owned(),
                parent: Some(0),
            });
        }
        assert_eq!(visible(&devices, Some("MIG-12")), [3]);
        assert_eq!(visible(&devices, Some("MIG-11,MIG-12")), [2]);
        assert_eq!(
            visible(&devices, None),
            [2],
            "no whole GPU beside an instance"
        );
        assert_eq!(
            visible(&devices, Some("0")),
            [2],
            "a GPU in MIG mode means an instance"
        );
        assert_eq!(visible(&devices, Some("1")), [1]);
    }
}
