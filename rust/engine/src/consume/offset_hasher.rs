//! A hasher for keys of deliveries. The store itself gives out offsets in order, so no peer can choose colliding keys,
//! and neighbours should lie next to each other.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps whose keys are [`crate::DeliveryKey`]s.
pub(crate) type ByOffset = BuildHasherDefault<OffsetHasher>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OffsetHasher(u64);

/// Hash maps use the highest bits to tell entries apart that lie close together.
const HIGHEST_BITS: u32 = 7;
/// 2^64 divided by the golden ratio: its multiples are far apart.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 << (u64::BITS - HIGHEST_BITS)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, queue: u32) {
        self.write_u64(u64::from(queue));
    }

    fn write_u64(&mut self, offset: u64) {
        // Offsets of another queue lie elsewhere, and those of many queues far apart.
        self.0 = self.0.wrapping_mul(SPREAD).wrapping_add(offset);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;
    use crate::consume::delivery::DeliveryKey;

    #[test]
    fn neighbours_lie_beside_each_other_and_can_be_told_apart() {
        let hash = |queue, offset| ByOffset::default().hash_one(DeliveryKey { queue, offset });
        for offset in [0, 1_000, 1 << 40] {
            let low: Vec<u64> = (offset..offset + 16).map(|offset| hash(0, offset) & 0xFFFF).collect();
            assert!(low.windows(2).all(|pair| pair[1] == pair[0] + 1));
            let high: HashSet<u64> = (offset..offset + 16).map(|offset| hash(0, offset) >> 57).collect();
            assert_eq!(high.len(), 16);
        }
        let both: HashSet<u64> = (0..1_000).flat_map(|offset| [hash(0, offset), hash(1, offset)]).collect();
        assert_eq!(both.len(), 2_000);
    }

    #[test]
    fn equal_offsets_of_many_queues_lie_far_apart() {
        let hash = |queue| ByOffset::default().hash_one(DeliveryKey { queue, offset: 77 });
        let low: HashSet<u64> = (0..2_000).map(|queue| hash(queue) & 0xFFFF).collect();
        assert!(low.len() > 1_900, "{}", low.len());
    }
}
