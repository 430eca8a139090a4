//! Random mutations of inputs: the same seed makes the same mutations on every machine.

use delaymq_simulation::chance::Chance;

/// Numbers that readers often handle wrongly.
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    16,
    64,
    127,
    128,
    255,
    256,
    4_096,
    32_767,
    32_768,
    65_535,
    65_536,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX,
];
/// The most changes of one input.
const CHANGES_MAX: u64 = 4;
/// The most bytes that one change moves, doubles or removes.
const PIECE_MAX: u64 = 64;

/// An input that differs from `from` in a few places, with pieces of `other`. No longer than `length_max`.
pub fn mutated(from: &[u8], other: &[u8], length_max: usize, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = from.to_vec();
    for _ in 0..chance.between(1, CHANGES_MAX) {
        change(&mut bytes, other, chance);
    }
    bytes.truncate(length_max);
    bytes
}

fn place(length: usize, chance: &mut Chance) -> usize {
    usize::try_from(chance.below(length as u64)).unwrap_or(0)
}

/// A random piece of `bytes`; short pieces are more frequent.
fn piece(bytes: &[u8], chance: &mut Chance) -> std::ops::Range<usize> {
    let start = place(bytes.len(), chance);
    let room = bytes.len().saturating_sub(start) as u64;
    let most = if chance.percent(10) { room } else { room.min(PIECE_MAX) };
    let length = usize::try_from(chance.below(most.saturating_add(1))).unwrap_or(0);
    start..start.saturating_add(length)
}

fn change(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = place(bytes.len(), chance);
    match chance.below(10) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = chance.next_number().to_le_bytes()[0];
            }
        }
        3 | 4 => put_number(bytes, at, chance),
        5 => drop(bytes.drain(piece(bytes, chance))),
        6 => {
            let copied = bytes.get(piece(bytes, chance)).unwrap_or_default().to_vec();
            bytes.splice(at..at, copied);
        }
        7 => {
            let lent = other.get(piece(other, chance)).unwrap_or_default().to_vec();
            let replaced = if chance.percent(50) { at..at } else { piece(bytes, chance) };
            bytes.splice(replaced, lent);
        }
        8 => bytes.truncate(at),
        _ => {
            let count = usize::try_from(chance.between(1, 8)).unwrap_or(1);
            let random = chance.bytes16();
            bytes.splice(at..at, random.into_iter().take(count));
        }
    }
}

/// Writes a number over 1, 2, 4 or 8 bytes, in either order: one of [`NUMBERS`], or the old number plus or minus
/// one.
fn put_number(bytes: &mut [u8], at: usize, chance: &mut Chance) {
    let width = usize::try_from(chance.one_of(&[1, 2, 4, 8])).unwrap_or(1);
    let is_big = chance.percent(50);
    let Some(field) = bytes.get_mut(at..at.saturating_add(width)) else { return };
    let fold = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
    let there = if is_big { field.iter().fold(0, fold) } else { field.iter().rev().fold(0, fold) };
    let number = match chance.below(4) {
        0 => there.wrapping_add(1),
        1 => there.wrapping_sub(1),
        _ => chance.one_of(&NUMBERS),
    };
    let little = number.to_le_bytes();
    for (place, byte) in field.iter_mut().enumerate() {
        let from = if is_big { width.saturating_sub(1).saturating_sub(place) } else { place };
        *byte = little.get(from).copied().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn one_seed_makes_one_row_of_inputs_and_they_differ() {
        let row = |seed| {
            let mut chance = Chance::new(seed);
            (0..500).map(|_| mutated(b"some bytes to begin with", b"others", 64, &mut chance)).collect::<Vec<_>>()
        };
        assert_eq!(row(3), row(3));
        let different: BTreeSet<Vec<u8>> = row(3).into_iter().collect();
        assert!(different.len() > 400, "{}", different.len());
        assert!(different.iter().all(|bytes| bytes.len() <= 64));
        assert!(different.iter().any(Vec::is_empty) || different.iter().any(|bytes| bytes.len() > 24));
    }

    #[test]
    fn nothing_to_change_is_no_harm() {
        let mut chance = Chance::new(1);
        for _ in 0..500 {
            mutated(b"", b"", 8, &mut chance);
        }
    }
}
