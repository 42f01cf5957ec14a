//! The card that the simulation pretends to be: what libcuda and NVML must tell alike.

use crate::simulation::DeviceInfo;

/// Where a card sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pci {
    /// PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u32,
    /// PCI device.
    pub device: u32,
}

/// The facts of one device. The model is a present-day data-centre card (compute capability 9.0,
/// 132 multiprocessors) with whatever memory the simulation gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// As `cuDeviceGetName` and NVML name it.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors; of an instance, its part.
    pub multiprocessors: u32,
    /// Its place; an instance has its whole GPU's.
    pub pci: Pci,
    /// `/dev/nvidia<minor>`.
    pub minor: u32,
}

const CAPABILITY: (i32, i32) = (9, 0);
const MULTIPROCESSORS: u32 = 132;
const GIB: u64 = 1 << 30;

impl Card {
    /// The card that stands for `device` among all devices of the simulation.
    #[must_use]
    pub fn of(device: &DeviceInfo, all: &[DeviceInfo]) -> Self {
        let whole = device.parent.unwrap_or(device.index);
        let place = all
            .iter()
            .filter(|d| d.parent.is_none() && d.index < whole)
            .count();
        let place = u32::try_from(place).unwrap_or(0);
        let parent = all.iter().find(|d| d.index == whole);
        let full = parent.map_or(device.total, |parent| parent.total).max(1);
        let share = u64::from(MULTIPROCESSORS) * device.total / full;
        let multiprocessors = u32::try_from(share).unwrap_or(MULTIPROCESSORS);
        let size = full.div_ceil(GIB);
        let mut name = format!("NVIDIA Simulated {size}GB");
        if device.parent.is_some() {
            name.push_str(&format!(" MIG {}gb", device.total.div_ceil(GIB)));
        }
        Self {
            name,
            capability: CAPABILITY,
            multiprocessors: multiprocessors.clamp(1, MULTIPROCESSORS),
            pci: Pci {
                domain: 0,
                bus: 0x17 + place,
                device: 0,
            },
            minor: place,
        }
    }
}

/// The release of NVIDIA's driver that brought a CUDA version, as NVML names it.
#[must_use]
pub fn driver_release(cuda: i32) -> String {
    let branch = match cuda / 10 {
        ..=1099 => 440,
        1100 => 450,
        1101 => 455,
        1102 => 460,
        1103 => 465,
        1104 => 470,
        1105 => 495,
        1106 => 510,
        1107 => 515,
        1108..=1199 => 520,
        1200 => 525,
        1201 => 530,
        1202 => 535,
        // 12.3 came with 545, and then one branch more for each.
        1203..=1299 => 545 + (cuda / 10 - 1203) * 5,
        1300 => 580,
        _ => 585 + (cuda / 10 - 1300) * 5 + (cuda / 1000 - 13) * 50,
    };
    format!("{branch}.99.01")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: usize, gib: u64, parent: Option<usize>) -> DeviceInfo {
        DeviceInfo {
            index,
            uuid: [0; 16],
            total: gib * GIB,
            parent,
        }
    }

    #[test]
    fn an_instance_sits_where_its_gpu_sits() {
        let all = [
            device(0, 24, None),
            device(1, 80, None),
            device(2, 20, Some(1)),
        ];
        let cards: Vec<Card> = all.iter().map(|d| Card::of(d, &all)).collect();
        assert_eq!(cards[1].pci, cards[2].pci);
        assert_ne!(cards[0].pci, cards[1].pci);
        assert_eq!(cards[2].name, "NVIDIA Simulated 80GB MIG 20gb");
        assert_eq!(
            (cards[1].multiprocessors, cards[2].multiprocessors),
            (132, 33)
        );
    }

    #[test]
    fn drivers_belong_to_their_cuda() {
        for (cuda, branch) in [
            (11040, "470."),
            (12020, "535."),
            (12040, "550."),
            (13000, "580."),
        ] {
            assert!(driver_release(cuda).starts_with(branch), "{cuda}");
        }
    }
}
