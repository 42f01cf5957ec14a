//! A small stable hash: UUIDs of simulated devices are the same in every process and every run.

/// FNV-1a over `bytes`, starting from `seed`.
pub(crate) fn fnv1a(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// The UUID of device `index` of the simulation called `name`.
pub(crate) fn device_uuid(name: &str, index: usize) -> [u8; 16] {
    let high = fnv1a(index as u64 + 1, name.as_bytes());
    let low = fnv1a(high, b"gpu-sim device");
    let mut uuid = [0_u8; 16];
    uuid[..8].copy_from_slice(&high.to_be_bytes());
    uuid[8..].copy_from_slice(&low.to_be_bytes());
    // Version 4, variant 1: what tools expect to see in a UUID.
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::device_uuid;

    #[test]
    fn uuids_are_stable_and_distinct() {
        assert_eq!(device_uuid("a", 0), device_uuid("a", 0));
        assert_ne!(device_uuid("a", 0), device_uuid("a", 1));
        assert_ne!(device_uuid("a", 0), device_uuid("b", 0));
    }
}
