//! Choices from one seed.

/// A generator of choices.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The choices of one part of a life: parts of one seed share nothing.
    pub(crate) fn new(seed: u64, life: u64, part: u64) -> Self {
        let mut chance = Self(seed);
        for one in [life, part] {
            chance.0 = chance.next_number() ^ one.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        }
        chance
    }

    /// The next number, over the whole range.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next_number().checked_rem(end).unwrap_or(0)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
