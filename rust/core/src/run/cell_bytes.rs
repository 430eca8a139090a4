//! A cell, and its encoding relative to the previous cell.
//!
//! A cell is encoded as four numbers in groups of seven bits, the lowest first, one to a byte. The highest
//! bit of a byte is set if more follow (LEB128, as in DWARF 5, 7.6). The numbers are the difference of the
//! subject to the previous cell, the difference of the minute (or the minute itself if the subject differs),
//! messages, and bytes.

use crate::units::{Minute, SubjectNumber, Tally};

/// The most bytes of a cell.
pub(super) const CELL_BYTES_MAX: usize = 30;

/// The messages of one subject that are due within one minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// The subject.
    pub subject: SubjectNumber,
    /// The minute.
    pub minute: Minute,
    /// Their number and bytes.
    pub tally: Tally,
}

impl Cell {
    /// The key by which cells are sorted.
    #[inline]
    pub fn key(&self) -> (SubjectNumber, Minute) {
        (self.subject, self.minute)
    }
}

/// Adds up neighbouring cells with the same key.
pub(crate) fn sum_neighbours(cells: &mut Vec<Cell>) {
    cells.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.tally.add(next.tally);
        }
        same
    });
}

/// Appends a cell after one with the key `before`.
pub(crate) fn encode_cell(out: &mut Vec<u8>, before: (SubjectNumber, Minute), cell: Cell) {
    let subjects = cell.subject.since(before.0);
    let minute = if subjects == 0 { cell.minute.since(before.1) } else { cell.minute.0 };
    for number in [u64::from(subjects), u64::from(minute), cell.tally.messages, cell.tally.bytes] {
        let mut left = number;
        while left >= 0x80 {
            out.push((left & 0x7F) as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
}

/// Takes the cell after one with the key `before` from the front of the bytes. `None` if there is none.
#[inline]
pub(crate) fn decode_cell(rest: &mut &[u8], before: (SubjectNumber, Minute)) -> Option<Cell> {
    let [subjects, minutes, messages, bytes] = match short_numbers(rest) {
        Some((numbers, tail)) => {
            *rest = tail;
            numbers
        }
        None => [take_number(rest)?, take_number(rest)?, take_number(rest)?, take_number(rest)?],
    };
    let (subjects, minutes) = (u32::try_from(subjects).ok()?, u32::try_from(minutes).ok()?);
    let subject = SubjectNumber(before.0.0.checked_add(subjects)?);
    let minute = Minute(if subjects == 0 { before.1.0.checked_add(minutes)? } else { minutes });
    Some(Cell { subject, minute, tally: Tally { messages, bytes } })
}

/// Decodes the usual form of a cell from one word: three numbers of one byte, and one of one or two bytes.
/// `None` for other forms and near the end of the bytes, where the numbers are decoded one by one.
#[inline]
fn short_numbers(rest: &[u8]) -> Option<([u64; 4], &[u8])> {
    const LONG: u64 = 0x80;
    let word = u64::from_le_bytes(*rest.first_chunk()?);
    let last = word >> 24;
    let is_long = last & LONG != 0;
    let numbers_are_long = word & (LONG | LONG << 8 | LONG << 16) != 0;
    if numbers_are_long || (is_long && last & LONG << 8 != 0) {
        return None;
    }
    let high = if is_long { (last >> 8 & 0x7F) << 7 } else { 0 };
    let numbers = [word & 0x7F, word >> 8 & 0x7F, word >> 16 & 0x7F, last & 0x7F | high];
    rest.split_at_checked(if is_long { 5 } else { 4 }).map(|(_, tail)| (numbers, tail))
}

/// Takes the next number. `None` if there is none, or if it has more than 64 bits.
#[inline]
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (byte, tail) = rest.split_first()?;
    if byte & 0x80 == 0 {
        *rest = tail;
        return Some(u64::from(*byte));
    }
    take_long_number(rest)
}

fn take_long_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        let bits = u64::from(byte & 0x7F);
        if bits.checked_shl(shift)? >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every length, most of them short.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..0x80, 0_u64..0x80, 0_u64..0x4000, any::<u32>().prop_map(u64::from)]
    }

    proptest! {
        /// Cells are read back with any cells before and after them, in one word or number by number.
        #[test]
        fn a_cell_is_read_as_it_was_written(
            numbers in prop::collection::vec((0_u32..3, number(), number(), number()), 1..40),
            cut in 0_usize..400,
        ) {
            let (mut bytes, mut cells, mut before) = (Vec::new(), Vec::new(), (SubjectNumber(7), Minute(0)));
            for (subjects, minutes, messages, size) in numbers {
                let minute = if subjects == 0 { u64::from(before.1.0) + minutes } else { minutes };
                let cell = Cell {
                    subject: SubjectNumber(before.0.0 + subjects),
                    minute: Minute(u32::try_from(minute).unwrap_or(u32::MAX)),
                    tally: Tally { messages, bytes: size },
                };
                encode_cell(&mut bytes, before, cell);
                (before, cells) = (cell.key(), [cells, vec![(cell, bytes.len())]].concat());
            }
            bytes.truncate(cut);
            let (mut rest, mut before) = (bytes.as_slice(), (SubjectNumber(7), Minute(0)));
            for (cell, end) in cells {
                let read = decode_cell(&mut rest, before);
                prop_assert_eq!(read, (end <= bytes.len()).then_some(cell));
                if read.is_none() {
                    break;
                }
                before = cell.key();
            }
        }
    }
}
