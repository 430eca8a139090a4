//! Random numbers that a seed repeats: `SplitMix64`, which needs no crate and is the same on every machine.

/// A seeded sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `last`, both included.
    pub(crate) fn up_to(&mut self, last: u64) -> u64 {
        match last.checked_add(1) {
            None => self.next(),
            Some(count) => self.next() % count,
        }
    }

    /// Like [`Self::up_to`], for indexes in memory.
    pub(crate) fn place_up_to(&mut self, last: usize) -> usize {
        usize::try_from(self.up_to(last as u64)).unwrap_or(last)
    }

    /// True in this percentage of calls.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.up_to(99) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_reaches_every_number() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..200).map(|_| chance.up_to(4)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for number in 0..=4 {
            assert!(draw(7).contains(&number));
        }
    }
}
