//! Random numbers from one seed. The same seed always gives the same numbers, on every machine.

/// A generator; see the module.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator for this seed; neighbouring seeds share nothing.
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x6A09_E667_F3BC_C909 }
    }

    /// The next number, over the whole range.
    pub fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_number() % end }
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least.saturating_add(self.below(most.saturating_sub(least).saturating_add(1)))
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these; `None` if there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or(0))
    }

    /// One of these numbers, of which there is at least one.
    pub fn one_of(&mut self, from: &[u64]) -> u64 {
        self.pick(from).copied().unwrap_or_default()
    }

    /// Sixteen random bytes.
    pub fn bytes16(&mut self) -> [u8; 16] {
        (u128::from(self.next_number()) << 64 | u128::from(self.next_number())).to_le_bytes()
    }
}

/// A running digest of everything that happened in a history.
#[derive(Clone, Copy, Debug)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl TraceHash {
    /// Takes in a piece of text.
    pub fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xFF]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// Takes in a number.
    pub fn add_number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// The digest so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_sequence() {
        let mut first = Chance::new(7);
        let mut again = Chance::new(7);
        let mut other = Chance::new(8);
        let numbers: Vec<u64> = (0..20).map(|_| first.next_number()).collect();
        assert!(numbers.iter().all(|number| *number == again.next_number()));
        assert!(numbers.iter().any(|number| *number != other.next_number()));
    }

    #[test]
    fn bounds_hold() {
        let mut chance = Chance::new(1);
        for _ in 0..1_000 {
            assert!(chance.below(3) < 3);
            assert!((5..=7).contains(&chance.between(5, 7)));
        }
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
    }
}
