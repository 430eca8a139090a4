//! SipHash-2-4 (Aumasson and Bernstein, 2012): a short keyed check for receipts, and a hash for names.

/// The 64-bit SipHash-2-4 of `bytes` under a 16-byte key.
pub(crate) fn siphash_2_4(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let key = u128::from_le_bytes(*key);
    let (low, high) = (key as u64, (key >> 64) as u64);
    let mut state = State([
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ]);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let mut last = (bytes.len() as u64) << 56;
    for (index, byte) in rest.iter().enumerate() {
        last |= u64::from(*byte) << (8 * index);
    }
    state.absorb(last);
    state.0[2] ^= 0xFF;
    for _ in 0..4 {
        state.round();
    }
    let [a, b, c, d] = state.0;
    a ^ b ^ c ^ d
}

struct State([u64; 4]);

impl State {
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_of_the_papers_appendix() {
        let key: [u8; 16] = std::array::from_fn(|index| index as u8);
        let input: [u8; 15] = std::array::from_fn(|index| index as u8);
        assert_eq!(siphash_2_4(&key, &input), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash_2_4(&key, &[]), 0x726f_db47_dd0e_0e31);
    }
}
