//! Random numbers that a seed repeats.

/// A xorshift generator.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        // The seed is mixed so that neighbouring seeds start differently; the state must not be zero.
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self((mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `bound`, both included.
    pub(super) fn up_to(&mut self, bound: usize) -> usize {
        let values = (bound as u64).saturating_add(1);
        ((self.next() >> 11) % values) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.up_to(1) == 1
    }
}
