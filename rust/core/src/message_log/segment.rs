//! The segment: one file of the log.
//!
//! The first block of 4,096 bytes holds only what is known when the file is prepared:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `magic`: `DMQSEGMT` |
//! | 8 | 4 | `format_version` |
//! | 12 | 4 | `number` |
//! | 16 | 16 | `stream` |
//! | 32 | 4 | `timeline` |
//! | 36 | 4 | `reserved`: zero |
//! | 40 | 8 | `capacity`: bytes of the whole file |
//! | 48 | 4 | `header_check`: CRC-32 of bytes 0..48 |
//!
//! The rest of the block is zero. Batches follow from offset 4,096 on without gaps. The length of each is a
//! multiple of 8 bytes. Zeros mean that nothing is written there yet. A full segment ends in a seal.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result, StorageFault};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::{check_format, written_format};
use crate::storage::{Storage, StorageFile};
use crate::units::SegmentNumber;

/// The folder of the segments.
pub const LOG_FOLDER: &str = "log";
/// The folder that keeps the bytes that a repair took out of the log.
pub const ASIDE_FOLDER: &str = "aside";
/// The first eight bytes of every segment.
const SEGMENT_MAGIC: [u8; 8] = *b"DMQSEGMT";
/// Bytes of the header block. The first batch starts after it.
pub const SEGMENT_HEADER_BYTES: u32 = 4096;
/// The smallest segment, in bytes: the header block and the same size again for batches.
pub const SEGMENT_BYTES_MIN: u32 = 2 * SEGMENT_HEADER_BYTES;
/// The largest segment, in bytes. Every offset in it fits a location with room to spare.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 31;
/// Size of the segments that an opening makes, and of the smallest that are prepared, unless the store's segments are
/// smaller. An opening waits for two of them, and a store without messages takes no more.
pub const OPENING_SEGMENT_BYTES: u32 = 1 << 20;
/// The largest submission, in bytes of encoded records, however large the segments are.
const RECORDS_MAX: u64 = 32 << 20;
/// Bytes of a block of the disk: space is given back in whole blocks.
const BLOCK_BYTES: u64 = 4_096;
/// The suffix of a segment's name.
const SUFFIX: &str = ".segment";
/// Digits of the number in a name.
const DIGITS: usize = 10;
/// The offset of the header's check.
const CHECK_OFFSET: usize = 48;

/// The history that files belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Random bytes, chosen when the store is made and never changed.
    pub id: [u8; 16],
    /// Number of the branch of this history. It rises when the history is cut and continues differently.
    pub timeline: u32,
}

/// The contents of a segment's header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The segment's number, also its name.
    pub number: SegmentNumber,
    /// The history it belongs to.
    pub stream: Stream,
    /// Bytes of the whole file.
    pub capacity: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSegmentHeader {
    magic: [u8; 8],
    format_version: U32,
    number: U32,
    stream: [u8; 16],
    timeline: U32,
    reserved: U32,
    capacity: U64,
    header_check: U32,
}
const _: () = assert!(size_of::<RawSegmentHeader>() == CHECK_OFFSET + 4);

impl RawSegmentHeader {
    fn expected_check(&self) -> u32 {
        crc32fast::hash(self.as_bytes().get(..CHECK_OFFSET).unwrap_or_default())
    }
}

impl SegmentHeader {
    /// The header block as it is written.
    pub fn to_block(&self) -> Vec<u8> {
        let mut raw = RawSegmentHeader {
            magic: SEGMENT_MAGIC,
            format_version: U32::new(written_format()),
            number: U32::new(self.number.0),
            stream: self.stream.id,
            timeline: U32::new(self.stream.timeline),
            reserved: U32::ZERO,
            capacity: U64::new(u64::from(self.capacity)),
            header_check: U32::ZERO,
        };
        raw.header_check = U32::new(raw.expected_check());
        let mut block = raw.as_bytes().to_vec();
        block.resize(SEGMENT_HEADER_BYTES as usize, 0);
        block
    }

    /// Reads the header block of the file at `path`. Errors: `Corrupt` if it is damaged, `NewerFormat` if a
    /// later release wrote it.
    pub fn read(path: &str, block: &[u8]) -> Result<Self> {
        let Ok((raw, _)) = RawSegmentHeader::read_from_prefix(block) else {
            return Err(Error::corrupt(path, 0, "a segment header", format!("{} bytes", block.len())));
        };
        if raw.magic != SEGMENT_MAGIC {
            return Err(Error::corrupt(path, 0, "the magic DMQSEGMT", format!("{:02x?}", raw.magic)));
        }
        if raw.header_check.get() != raw.expected_check() {
            let (expected, found) = (raw.expected_check(), raw.header_check.get());
            return Err(Error::corrupt(
                path,
                CHECK_OFFSET as u64,
                format!("header check {expected:08x}"),
                format!("{found:08x}"),
            ));
        }
        check_format(path, 8, raw.format_version.get())?;
        let capacity = raw.capacity.get();
        let fits = u32::try_from(capacity).ok().filter(|bytes| (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(bytes));
        let Some(capacity) = fits else {
            return Err(Error::corrupt(path, 40, "the capacity of a segment", capacity));
        };
        let stream = Stream { id: raw.stream, timeline: raw.timeline.get() };
        Ok(Self { number: SegmentNumber(raw.number.get()), stream, capacity })
    }

    /// Checks that the header is that of segment `number` of `stream`. The segment may be of an earlier
    /// timeline of the same stream.
    pub fn check_place(&self, path: &str, number: SegmentNumber, stream: &Stream) -> Result<()> {
        if self.number != number {
            return Err(Error::corrupt(path, 12, format!("segment number {number}"), self.number));
        }
        if self.stream.id != stream.id || self.stream.timeline > stream.timeline {
            let words = |stream: &Stream| format!("stream {:02x?} timeline {}", stream.id, stream.timeline);
            return Err(Error::corrupt(path, 16, words(stream), words(&self.stream)));
        }
        Ok(())
    }
}

/// The name of a segment within its folder.
pub fn segment_name(number: SegmentNumber) -> String {
    format!("{:0width$}{SUFFIX}", number.0, width = DIGITS)
}

/// The path of a segment.
pub fn segment_path(number: SegmentNumber) -> String {
    format!("{LOG_FOLDER}/{}", segment_name(number))
}

/// The number in a segment's name; `None` for any other name.
fn segment_number(name: &str) -> Option<SegmentNumber> {
    let digits = name.strip_suffix(SUFFIX)?;
    let all_digits = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok().filter(|number| *number > 0).map(SegmentNumber)).flatten()
}

/// The numbers of the existing segments, ascending.
pub fn list_segments(storage: &dyn Storage) -> Result<Vec<SegmentNumber>> {
    let names = storage.list(LOG_FOLDER)?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Bytes that batches can take in an empty segment of `capacity` bytes. The room of the seal is not included.
pub const fn fresh_room(capacity: u32) -> u32 {
    capacity.saturating_sub(SEGMENT_HEADER_BYTES).saturating_sub(BATCH_HEADER_BYTES as u32)
}

/// The largest submission, in bytes of encoded records, for segments of `capacity` bytes.
pub const fn records_max(capacity: u32) -> u64 {
    let half = (capacity / 2) as u64;
    // One header for the batch itself, and one for a witness that may come before it.
    let whole = (fresh_room(capacity) as u64).saturating_sub(2 * BATCH_HEADER_BYTES as u64);
    let smaller = if half < whole { half } else { whole };
    if smaller < RECORDS_MAX { smaller } else { RECORDS_MAX }
}

/// Gives the disk space behind a seal back, which was prepared for more batches. No reader reads these bytes, and they
/// are zeros before and after. If the disk does not take them, they stay, which does no harm.
pub(super) fn give_back_rest(segment: &dyn StorageFile, end: u64) -> Result<()> {
    let from = end.next_multiple_of(BLOCK_BYTES);
    let punched = segment.length().and_then(|length| match length.saturating_sub(from) {
        0 => Ok(false),
        rest => segment.punch(from, rest),
    });
    unless_stopped(punched)
}

/// Ignores a failure to give space back, unless the simulated machine has stopped in it.
pub(super) fn unless_stopped<T>(done: Result<T>) -> Result<()> {
    match done {
        Err(error @ Error::Storage { fault: StorageFault::Stopped, .. }) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FORMAT_VERSION;

    fn header() -> SegmentHeader {
        SegmentHeader { number: SegmentNumber(7), stream: Stream { id: [3; 16], timeline: 2 }, capacity: 1 << 20 }
    }

    #[test]
    fn a_header_reads_back() {
        let block = header().to_block();
        assert_eq!(block.len(), 4096);
        assert_eq!(SegmentHeader::read("log/x", &block).unwrap(), header());
    }

    #[test]
    fn each_flipped_bit_of_the_header_is_found() {
        for bit in 0..(CHECK_OFFSET + 4) * 8 {
            let mut block = header().to_block();
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::read("log/x", &block).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut raw = RawSegmentHeader::read_from_prefix(&header().to_block()).unwrap().0;
        raw.format_version = U32::new(FORMAT_VERSION + 1);
        raw.header_check = U32::new(raw.expected_check());
        assert!(matches!(SegmentHeader::read("log/x", raw.as_bytes()), Err(Error::NewerFormat { .. })));
    }

    #[test]
    fn another_place_is_refused() {
        let stream = header().stream;
        assert!(header().check_place("x", SegmentNumber(7), &stream).is_ok());
        assert!(header().check_place("x", SegmentNumber(8), &stream).is_err());
        assert!(header().check_place("x", SegmentNumber(7), &Stream { id: [4; 16], ..stream }).is_err());
        assert!(header().check_place("x", SegmentNumber(7), &Stream { timeline: 1, ..stream }).is_err());
        assert!(header().check_place("x", SegmentNumber(7), &Stream { timeline: 3, ..stream }).is_ok());
    }

    #[test]
    fn names_hold_the_number_in_ten_digits() {
        assert_eq!(segment_path(SegmentNumber(7)), "log/0000000007.segment");
        assert_eq!(segment_number("0000000007.segment"), Some(SegmentNumber(7)));
        for other in ["7.segment", "0000000007.segment.tmp", "0000000000.segment", "+000000007.segment", "x"] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }

    #[test]
    fn the_largest_submission_fits_an_empty_segment() {
        for capacity in [SEGMENT_BYTES_MIN, 12 << 10, 1 << 20, 128 << 20, SEGMENT_BYTES_MAX] {
            let batch = records_max(capacity) + BATCH_HEADER_BYTES as u64;
            assert!(batch <= u64::from(fresh_room(capacity)), "{capacity}");
        }
        assert_eq!(records_max(128 << 20), 32 << 20);
    }
}
