//! A cell, and how it is written behind the one before it.
//!
//! A cell is four numbers of seven bits to a byte, the lowest first, with the highest bit set where more
//! follows: subjects since the cell before, then minutes since the cell before, or the minute itself where
//! the subject is another one, then messages, then bytes. (LEB128, as in DWARF 5, 7.6.)

use crate::units::{Minute, SubjectNumber, Tally};

/// Bytes of a cell at most.
pub(super) const CELL_BYTES_MAX: usize = 30;

/// What is due of one subject within one minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// The subject.
    pub subject: SubjectNumber,
    /// The minute.
    pub minute: Minute,
    /// How much.
    pub tally: Tally,
}

impl Cell {
    /// Cells stand in the order of these.
    #[inline]
    pub fn key(&self) -> (SubjectNumber, Minute) {
        (self.subject, self.minute)
    }
}

/// Makes one of neighbours with the same key.
pub(crate) fn sum_neighbours(cells: &mut Vec<Cell>) {
    cells.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.tally.add(next.tally);
        }
        same
    });
}

/// Appends a cell behind one with the key `before`.
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

/// Takes the cell behind one with the key `before` from the front of these bytes; `None` where there is none.
#[inline]
pub(crate) fn decode_cell(rest: &mut &[u8], before: (SubjectNumber, Minute)) -> Option<Cell> {
    let subjects = u32::try_from(take_number(rest)?).ok()?;
    let minutes = u32::try_from(take_number(rest)?).ok()?;
    let subject = SubjectNumber(before.0.0.checked_add(subjects)?);
    let minute = Minute(if subjects == 0 { before.1.0.checked_add(minutes)? } else { minutes });
    let tally = Tally { messages: take_number(rest)?, bytes: take_number(rest)? };
    Some(Cell { subject, minute, tally })
}

/// The next number; `None` where there is none, or more than 64 bits of it.
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
