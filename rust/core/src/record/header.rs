//! The record: one fact on disk.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `length`: header, fixed part and payload, without padding |
//! | 4 | 1 | `kind` |
//! | 5 | 1 | `flags` |
//! | 6 | 2 | `fixed_length` |
//! | 8 | 4 | `payload_check`: CRC-32 (IEEE) of the payload |
//! | 12 | 4 | `header_check`: CRC-32 of bytes 0..12 and the fixed part, XOR the sequence's mark |
//! | 16 | `fixed_length` | fixed part, by kind |
//! | … | … | payload |
//!
//! Integers are little-endian. A record takes its length rounded up to 8; the padding is zero. A record's sequence
//! is its batch's base sequence plus its ordinal. It is not written, but the header check includes the mark of the
//! sequence, so a record under a wrong sequence fails the check, also in a run.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::planted::{Planted, is_on};
use crate::units::{Sequence, padded};

/// The fixed start of each record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// Header, fixed part and payload, in bytes, without padding.
    pub length: U32,
    /// The kind of fact.
    pub kind: u8,
    /// Flags, by kind.
    pub flags: u8,
    /// Bytes of the fixed part.
    pub fixed_length: U16,
    /// CRC-32 of the payload.
    pub payload_check: U32,
    /// CRC-32 of the fields before and the fixed part, XOR the sequence's mark.
    pub header_check: U32,
}

/// Bytes of a record header.
pub const RECORD_HEADER_BYTES: usize = 16;
/// Bytes of the header before its own check.
const CHECKED_BYTES: usize = 12;
const _: () = assert!(size_of::<RecordHeader>() == RECORD_HEADER_BYTES);

/// The largest record, in bytes: a body of 4 MiB with all its attributes fits.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// The factor for the low half of a sequence, and its inverse modulo 2^32.
const MARK_FACTOR: u32 = 0x9E37_79B1;
const MARK_INVERSE: u32 = 0x0E8B_2F51;
const _: () = assert!(MARK_FACTOR.wrapping_mul(MARK_INVERSE) == 1);

/// The part of a header check that the sequence adds: a bijection of its low 32 bits, so neighbours differ.
#[inline]
pub const fn sequence_mark(sequence: Sequence) -> u32 {
    ((sequence.0 & 0xFFFF_FFFF) as u32).wrapping_mul(MARK_FACTOR) ^ ((sequence.0 >> 32) as u32)
}

/// A record in memory, with its header already checked against its sequence.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The sequence it was checked against.
    pub sequence: Sequence,
    /// Its header.
    pub header: RecordHeader,
    /// Its fixed part.
    pub fixed: &'a [u8],
    /// Its payload, not yet checked.
    pub payload: &'a [u8],
}

impl RawRecord<'_> {
    /// True if the payload matches its check.
    #[inline]
    pub fn payload_is_whole(&self) -> bool {
        crc32fast::hash(self.payload) == self.header.payload_check.get()
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// Fewer bytes than the header, or than its length field says.
    Short,
    /// A length that no record has.
    Length(u32),
    /// The header check does not match the bytes and the sequence.
    HeaderCheck {
        /// The check computed from the bytes.
        expected: u32,
        /// The check that is stored.
        found: u32,
    },
}

/// Reads and checks the record at the front of `bytes` under `sequence`.
pub fn read_record(bytes: &[u8], sequence: Sequence) -> Result<RawRecord<'_>, RecordFault> {
    if is_on(Planted::ZerosAccepted) && bytes.iter().take(RECORD_HEADER_BYTES).all(|byte| *byte == 0) {
        let (header, _) = RecordHeader::read_from_prefix(bytes).map_err(|_| RecordFault::Short)?;
        let header = RecordHeader { length: U32::new(RECORD_HEADER_BYTES as u32), ..header };
        return Ok(RawRecord { sequence, header, fixed: &[], payload: &[] });
    }
    let record = read_parts(bytes, sequence)?;
    let expected = check_of(bytes, record.fixed.len()).ok_or(RecordFault::Short)? ^ sequence_mark(sequence);
    let found = record.header.header_check.get();
    if expected != found && !is_on(Planted::RecordUnchecked) {
        return Err(RecordFault::HeaderCheck { expected, found });
    }
    Ok(record)
}

/// The record at the front of `bytes`, whose check is not compared.
#[inline]
fn read_parts(bytes: &[u8], sequence: Sequence) -> Result<RawRecord<'_>, RecordFault> {
    let (header, rest) = RecordHeader::read_from_prefix(bytes).map_err(|_| RecordFault::Short)?;
    let length = header.length.get() as usize;
    let fixed_length = usize::from(header.fixed_length.get());
    if length < RECORD_HEADER_BYTES + fixed_length || length > RECORD_BYTES_MAX {
        return Err(RecordFault::Length(header.length.get()));
    }
    let fixed = rest.get(..fixed_length).ok_or(RecordFault::Short)?;
    let payload = rest.get(fixed_length..length - RECORD_HEADER_BYTES).ok_or(RecordFault::Short)?;
    Ok(RawRecord { sequence, header, fixed, payload })
}

/// Reads the record at the front of `bytes` under the sequence that its own check implies, with the upper half of
/// `near`. Any bytes with a record's lengths imply some sequence: the caller must know which sequences are
/// possible.
pub fn read_any_record(bytes: &[u8], near: Sequence) -> Option<RawRecord<'_>> {
    let (header, _) = RecordHeader::read_from_prefix(bytes).ok()?;
    let mark = check_of(bytes, usize::from(header.fixed_length.get()))? ^ header.header_check.get();
    let upper = near.0 >> 32;
    let lower = (mark ^ (upper as u32)).wrapping_mul(MARK_INVERSE);
    read_record(bytes, Sequence((upper << 32) | u64::from(lower))).ok()
}

/// The header check without the sequence's mark.
fn check_of(record: &[u8], fixed_length: usize) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(record.get(..CHECKED_BYTES)?);
    hasher.update(record.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + fixed_length)?);
    Some(hasher.finalize())
}

/// Appends one record, padded, with a header check that [`seal_record`] completes once the
/// sequence is known. `payload` parts are joined. Lengths must be within [`RECORD_BYTES_MAX`];
/// callers check their limits first.
pub fn encode_record(out: &mut Vec<u8>, kind: u8, flags: u8, fixed: &[u8], payload: &[&[u8]]) {
    encode_checked_record(out, (kind, flags), fixed, payload, check_of_parts(payload));
}

/// Like [`encode_record`], with a check of the payload that is already computed.
pub(super) fn encode_checked_record(
    out: &mut Vec<u8>,
    (kind, flags): (u8, u8),
    fixed: &[u8],
    payload: &[&[u8]],
    payload_check: u32,
) {
    let start = out.len();
    let payload_length: usize = payload.iter().map(|part| part.len()).sum();
    let length = RECORD_HEADER_BYTES + fixed.len() + payload_length;
    debug_assert!(length <= RECORD_BYTES_MAX && u16::try_from(fixed.len()).is_ok());
    out.reserve(padded(length));
    let mut header = RecordHeader {
        length: U32::new(u32::try_from(length).unwrap_or(u32::MAX)),
        kind,
        flags,
        fixed_length: U16::new(u16::try_from(fixed.len()).unwrap_or(u16::MAX)),
        payload_check: U32::new(payload_check),
        header_check: U32::ZERO,
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.as_bytes().get(..CHECKED_BYTES).unwrap_or_default());
    hasher.update(fixed);
    header.header_check = U32::new(hasher.finalize());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(fixed);
    for part in payload {
        out.extend_from_slice(part);
    }
    out.resize(start + padded(length), 0);
}

pub(super) fn check_of_parts(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Completes the check of the freshly encoded record at the front of `bytes` for its sequence.
/// Returns its padded length and its final header check, or `None` if the bytes end early.
pub fn seal_record(bytes: &mut [u8], sequence: Sequence) -> Option<(usize, u32)> {
    let (header, _) = RecordHeader::mut_from_prefix(bytes).ok()?;
    let check = header.header_check.get() ^ sequence_mark(sequence);
    header.header_check = U32::new(check);
    Some((padded(header.length.get() as usize), check))
}

/// Recomputes the header check of the record at the front of `bytes` for its header, its fixed part and `sequence`;
/// `None` if the bytes end early.
pub(super) fn reseal_record(bytes: &mut [u8], sequence: Sequence) -> Option<()> {
    let (header, _) = RecordHeader::ref_from_prefix(bytes).ok()?;
    let check = check_of(bytes, usize::from(header.fixed_length.get()))? ^ sequence_mark(sequence);
    let (header, _) = RecordHeader::mut_from_prefix(bytes).ok()?;
    header.header_check = U32::new(check);
    Some(())
}

/// The records of one batch, in order, each checked against its sequence.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
    next: Sequence,
    is_checked: bool,
}

impl<'a> Records<'a> {
    /// The records in `bytes`, the first of which has sequence `base`.
    pub fn new(bytes: &'a [u8], base: Sequence) -> Self {
        Self { bytes, offset: 0, next: base, is_checked: false }
    }

    /// The same records, without comparing their checks: the caller has checked each record.
    pub fn checked(bytes: &'a [u8], base: Sequence) -> Self {
        Self { is_checked: true, ..Self::new(bytes, base) }
    }

    /// Where the next record starts, within the bytes given.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Records<'a> {
    /// The record's offset within the bytes, and the record.
    type Item = Result<(usize, RawRecord<'a>), RecordFault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..)?;
        if rest.is_empty() {
            return None;
        }
        let at = self.offset;
        let read = if self.is_checked { read_parts(rest, self.next) } else { read_record(rest, self.next) };
        match read {
            Ok(record) => {
                self.offset = self.offset.saturating_add(padded(record.header.length.get() as usize));
                self.next = self.next.next();
                Some(Ok((at, record)))
            }
            Err(fault) => {
                self.offset = self.bytes.len();
                Some(Err(fault))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, 1, 0, &[7; 24], &[payload]);
        seal_record(&mut bytes, Sequence(sequence)).unwrap();
        bytes
    }

    #[test]
    fn a_record_reads_back_under_its_sequence() {
        let bytes = sealed(41, b"hello");
        let record = read_record(&bytes, Sequence(41)).unwrap();
        assert_eq!(record.payload, b"hello");
        assert!(record.payload_is_whole());
        assert_eq!(bytes.len() % 8, 0);
    }

    #[test]
    fn a_record_found_under_another_sequence_fails_its_check() {
        let bytes = sealed(41, b"hello");
        for other in [40, 42, 41 + (1 << 32), 0] {
            assert!(matches!(read_record(&bytes, Sequence(other)), Err(RecordFault::HeaderCheck { .. })), "{other}");
        }
    }

    #[test]
    fn each_flipped_bit_is_found_by_one_of_the_checks() {
        let bytes = sealed(3, b"payload!");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = match read_record(&damaged, Sequence(3)) {
                Err(_) => true,
                Ok(record) => !record.payload_is_whole(),
            };
            assert!(found, "bit {bit}");
        }
    }

    #[test]
    fn records_that_are_checked_are_the_same_ones_and_end_where_their_lengths_do() {
        let mut bytes = [sealed(41, b"one"), sealed(42, b"two")].concat();
        let sequences = |records: Records<'_>| records.map(|found| found.unwrap().1.sequence.0).collect::<Vec<_>>();
        assert_eq!(sequences(Records::checked(&bytes, Sequence(41))), [41, 42]);
        assert_eq!(sequences(Records::new(&bytes, Sequence(41))), [41, 42]);
        bytes.truncate(bytes.len() - 8);
        assert!(matches!(Records::checked(&bytes, Sequence(41)).last(), Some(Err(RecordFault::Short))));
    }

    #[test]
    fn all_zeros_is_no_record() {
        assert!(matches!(read_record(&[0; 64], Sequence(0)), Err(RecordFault::Length(0))));
    }
}
