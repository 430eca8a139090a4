//! The footer: everything that is needed to open a run.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `kind`: 1 schedule, 2 dispatch, 3 staged |
//! | 4 | 4 | `number` |
//! | 8 | 16 | `stream` |
//! | 24 | 8 | `row_count` |
//! | 32 | 8 | `payload_start` |
//! | 40 | 8 | `payload_bytes` |
//! | 48 | 8 | `first_sequence`: the least among the rows |
//! | 56 | 8 | `last_sequence` |
//! | 64 | 4 | `fence_count` |
//! | 68 | 4 | `reference_count` |
//! | 72 | 4 | `bucket_count` |
//! | 76 | 4 | `subject_count` |
//! | 80 | 16 each | fences: the first key of each group of 4 blocks, `major u64, minor u64` |
//! | … | 16 each | references: `file u32` (bit 31: a run), `reserved u32`, `rows u64` |
//! | … | 24 each | time buckets of an hour: `start_ms u64, rows u64, payload bytes u64` |
//! | … | 32 each | dispatch runs: `subject u32, reserved u32, rows u64, first number u64, last number u64` |
//! | … | 24 each | schedule runs: the first cell of each block of cells, `subject u64, minute u64`, and `cells u64` |
//! | … | any | staged runs: see `staging/tail.rs` |
//!
//! `subject_count` counts the table of subjects or the table of cells: a run has only one of these.
//!
//! The trailer is the last 40 bytes of the file:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `footer_offset` |
//! | 8 | 8 | `footer_bytes` |
//! | 16 | 4 | `footer_check`: CRC-32 of the footer |
//! | 20 | 4 | `reserved` |
//! | 24 | 4 | `format` |
//! | 28 | 4 | `check`: CRC-32 of bytes 0..28 |
//! | 32 | 8 | `magic`: `DMQRUNEN` |

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::{BLOCK_BYTES, BLOCK_ROWS};
use super::cells::CellFence;
use super::rows::{Row, RowKey};
use super::staging::{Relation, STAGED_KIND, StagedTail};
use crate::error::{Error, Result};
use crate::record::{check_format, read_struct, written_format};
use crate::units::{
    Location, LocationFile, Millis, Minute, ReadyNumber, RunNumber, SegmentNumber, Sequence, SubjectNumber,
};

/// Blocks for one fence. A fence takes 16 bytes of memory for 340 rows.
pub(super) const GROUP_BLOCKS: u32 = 4;
/// The width of a time bucket, in milliseconds.
pub const TIME_BUCKET_MS: u64 = 3_600_000;
/// Bytes of the trailer.
pub(super) const TRAILER_BYTES: usize = 40;
const TRAILER_CHECKED_BYTES: usize = 28;
const TRAILER_MAGIC: [u8; 8] = *b"DMQRUNEN";
const RUN_FLAG: u32 = 1 << 31;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FooterHead {
    kind: U32,
    number: U32,
    stream: [u8; 16],
    row_count: U64,
    payload_start: U64,
    payload_bytes: U64,
    first_sequence: U64,
    last_sequence: U64,
    fence_count: U32,
    reference_count: U32,
    bucket_count: U32,
    subject_count: U32,
}
const FOOTER_HEAD_BYTES: usize = 80;
const _: () = assert!(size_of::<FooterHead>() == FOOTER_HEAD_BYTES);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Words<const N: usize>([U64; N]);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Trailer {
    footer_offset: U64,
    footer_bytes: U64,
    footer_check: U32,
    reserved: U32,
    format: U32,
    check: U32,
    magic: [u8; 8],
}
const _: () = assert!(size_of::<Trailer>() == TRAILER_BYTES);

/// The number of rows of a run that have their payload in one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The file. It is the run itself if payloads were copied into it.
    pub file: LocationFile,
    /// The number of rows.
    pub rows: u64,
}

/// The rows of a run that are due within one hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeBucket {
    /// The hour's first millisecond.
    pub start: Millis,
    /// Rows due in it.
    pub rows: u64,
    /// Bytes of their payload records in this run, without padding.
    pub payload_bytes: u64,
}

/// The rows of one subject in a dispatch run. They are next to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubjectRange {
    /// The subject.
    pub subject: SubjectNumber,
    /// The number of its rows.
    pub rows: u64,
    /// The least number.
    pub first: ReadyNumber,
    /// The greatest number.
    pub last: ReadyNumber,
}

/// A footer, which is built row by row and read back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Footer {
    pub(super) kind: u32,
    pub(super) number: RunNumber,
    pub(super) stream: [u8; 16],
    pub(super) row_count: u64,
    pub(super) payload_start: u64,
    pub(super) payload_bytes: u64,
    pub(super) first_sequence: Sequence,
    pub(super) last_sequence: Sequence,
    pub(super) fences: Vec<RowKey>,
    pub(super) references: Vec<Reference>,
    pub(super) buckets: Vec<TimeBucket>,
    pub(super) subjects: Vec<SubjectRange>,
    /// In a schedule run: the first cell of each block of cells.
    pub(super) cells: Vec<CellFence>,
    /// In a staged run: the check of its content, and its names.
    pub(super) staged: Option<StagedTail>,
}

/// The number of blocks for this many rows.
pub(super) fn block_count(rows: u64) -> u64 {
    rows.div_ceil(BLOCK_ROWS as u64)
}

impl Footer {
    /// Adds the next row. References are counted separately.
    pub(super) fn add<R: Row>(&mut self, row: &R) {
        let group_rows = u64::from(GROUP_BLOCKS) * BLOCK_ROWS as u64;
        if self.row_count.is_multiple_of(group_rows) {
            self.fences.push(row.key());
        }
        let sequence = row.sequence();
        self.first_sequence = if self.row_count == 0 { sequence } else { self.first_sequence.min(sequence) };
        self.last_sequence = self.last_sequence.max(sequence);
        self.row_count = self.row_count.saturating_add(1);
        if R::KIND == super::RunKind::Dispatch {
            self.add_subject(row);
        } else {
            self.add_bucket(row);
        }
    }

    fn add_bucket<R: Row>(&mut self, row: &R) {
        let start = Millis(row.due().0 / TIME_BUCKET_MS * TIME_BUCKET_MS);
        if self.buckets.last().is_none_or(|last| last.start != start) {
            self.buckets.push(TimeBucket { start, rows: 0, payload_bytes: 0 });
        }
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.rows = bucket.rows.saturating_add(1);
            bucket.payload_bytes = bucket.payload_bytes.saturating_add(u64::from(row.payload_length()));
        }
    }

    fn add_subject<R: Row>(&mut self, row: &R) {
        let number = ReadyNumber(row.key().minor);
        if self.subjects.last().is_none_or(|last| last.subject != row.subject()) {
            self.subjects.push(SubjectRange { subject: row.subject(), rows: 0, first: number, last: number });
        }
        if let Some(range) = self.subjects.last_mut() {
            range.rows = range.rows.saturating_add(1);
            range.last = number;
        }
    }

    /// Encodes the footer.
    pub(super) fn encode(&self) -> Vec<u8> {
        let count = |length: usize| U32::new(u32::try_from(length).unwrap_or(u32::MAX));
        let head = FooterHead {
            kind: U32::new(self.kind),
            number: U32::new(self.number.0),
            stream: self.stream,
            row_count: U64::new(self.row_count),
            payload_start: U64::new(self.payload_start),
            payload_bytes: U64::new(self.payload_bytes),
            first_sequence: U64::new(self.first_sequence.0),
            last_sequence: U64::new(self.last_sequence.0),
            fence_count: count(self.fences.len()),
            reference_count: count(self.references.len()),
            bucket_count: count(self.buckets.len()),
            subject_count: count(self.subjects.len().max(self.cells.len())),
        };
        let mut out = head.as_bytes().to_vec();
        let mut put = |words: &[u64]| words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        for fence in &self.fences {
            put(&[fence.major, fence.minor]);
        }
        for reference in &self.references {
            put(&[u64::from(file_code(reference.file)), reference.rows]);
        }
        for bucket in &self.buckets {
            put(&[bucket.start.0, bucket.rows, bucket.payload_bytes]);
        }
        for range in &self.subjects {
            put(&[u64::from(range.subject.0), range.rows, range.first.0, range.last.0]);
        }
        for fence in &self.cells {
            put(&[u64::from(fence.subject.0), u64::from(fence.minute.0), u64::from(fence.cells)]);
        }
        if let Some(tail) = &self.staged {
            tail.encode(&mut out);
        }
        out
    }

    /// Reads a footer back. `None` if its parts do not fill the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let head: FooterHead = read_struct(bytes)?;
        let mut rest = bytes.get(FOOTER_HEAD_BYTES..)?;
        let fences = take_words(&mut rest, head.fence_count.get())?;
        let references = take_words(&mut rest, head.reference_count.get())?;
        let buckets = take_words(&mut rest, head.bucket_count.get())?;
        let is_staged = head.kind.get() == STAGED_KIND;
        let is_schedule = is_staged || head.kind.get() == super::RunKind::Schedule as u32;
        let (subject_count, cell_count) =
            if is_schedule { (0, head.subject_count.get()) } else { (head.subject_count.get(), 0) };
        let subjects = take_words(&mut rest, subject_count)?;
        let cells = take_words(&mut rest, cell_count)?;
        let staged = if is_staged { Some(StagedTail::take(&mut rest)?) } else { None };
        let groups = block_count(head.row_count.get()).div_ceil(u64::from(GROUP_BLOCKS));
        if !rest.is_empty() || u64::from(head.fence_count.get()) != groups {
            return None;
        }
        let references = references
            .iter()
            .map(|[file, rows]| Some(Reference { file: file_of(u32::try_from(*file).ok()?), rows: *rows }));
        let subjects = subjects.iter().map(|[subject, rows, first, last]| {
            let subject = SubjectNumber(u32::try_from(*subject).ok()?);
            Some(SubjectRange { subject, rows: *rows, first: ReadyNumber(*first), last: ReadyNumber(*last) })
        });
        let cells = cells.iter().map(|[subject, minute, cells]| {
            let (subject, minute) =
                (SubjectNumber(u32::try_from(*subject).ok()?), Minute(u32::try_from(*minute).ok()?));
            Some(CellFence { subject, minute, cells: u32::try_from(*cells).ok()? })
        });
        let bucket = |[start, rows, payload_bytes]: &[u64; 3]| TimeBucket {
            start: Millis(*start),
            rows: *rows,
            payload_bytes: *payload_bytes,
        };
        Some(Self {
            kind: head.kind.get(),
            number: RunNumber(head.number.get()),
            stream: head.stream,
            row_count: head.row_count.get(),
            payload_start: head.payload_start.get(),
            payload_bytes: head.payload_bytes.get(),
            first_sequence: Sequence(head.first_sequence.get()),
            last_sequence: Sequence(head.last_sequence.get()),
            fences: fences.iter().map(|[major, minor]| RowKey { major: *major, minor: *minor }).collect(),
            references: references.collect::<Option<_>>()?,
            buckets: buckets.iter().map(bucket).collect(),
            subjects: subjects.collect::<Option<_>>()?,
            cells: cells.collect::<Option<_>>()?,
            staged,
        })
    }

    /// Translates the footer of a staged run for the store. Cells are not changed.
    pub(super) fn adopt(&mut self, relation: &Relation, stream: [u8; 16]) {
        (self.number, self.stream) = (relation.number, stream);
        self.first_sequence = relation.sequence(self.first_sequence);
        self.last_sequence = relation.sequence(self.last_sequence);
        for fence in &mut self.fences {
            fence.minor = relation.sequence(Sequence(fence.minor)).0;
        }
        for reference in &mut self.references {
            reference.file = LocationFile::Run(relation.number);
        }
    }

    /// The offset where blocks end and payloads begin, for a number of rows.
    pub(super) fn payload_start_of(rows: u64) -> u64 {
        block_count(rows).saturating_add(1).saturating_mul(BLOCK_BYTES as u64)
    }
}

/// Takes `count` rows of `N` words. The number of bytes limits the memory.
fn take_words<const N: usize>(rest: &mut &[u8], count: u32) -> Option<Vec<[u64; N]>> {
    let bytes = (count as usize).checked_mul(N * 8)?;
    let (part, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    let words = <[Words<N>]>::ref_from_bytes(part).ok()?;
    Some(words.iter().map(|Words(row)| row.map(U64::get)).collect())
}

/// The code of a file: the upper half of a location in it.
pub(crate) fn file_code(file: LocationFile) -> u32 {
    match file {
        LocationFile::Segment(SegmentNumber(number)) => number & !RUN_FLAG,
        LocationFile::Run(RunNumber(number)) => number | RUN_FLAG,
    }
}

/// The file of a code.
pub(crate) fn file_of(code: u32) -> LocationFile {
    Location(u64::from(code) << 32).file()
}

/// The content of the trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FooterPlace {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) check: u32,
}

/// Encodes the trailer.
pub(super) fn encode_trailer(place: FooterPlace) -> Vec<u8> {
    let mut trailer = Trailer {
        footer_offset: U64::new(place.offset),
        footer_bytes: U64::new(place.bytes),
        footer_check: U32::new(place.check),
        reserved: U32::ZERO,
        format: U32::new(written_format()),
        check: U32::ZERO,
        magic: TRAILER_MAGIC,
    };
    let check = crc32fast::hash(trailer.as_bytes().get(..TRAILER_CHECKED_BYTES).unwrap_or_default());
    trailer.check = U32::new(check);
    trailer.as_bytes().to_vec()
}

/// Reads the trailer of a file that is `length` bytes long.
pub(super) fn decode_trailer(bytes: &[u8], path: &str, length: u64) -> Result<FooterPlace> {
    let offset = length.saturating_sub(TRAILER_BYTES as u64);
    let trailer: Trailer =
        read_struct(bytes).ok_or_else(|| Error::corrupt(path, offset, "a trailer", "the end of the file"))?;
    if trailer.magic != TRAILER_MAGIC {
        let (expected, found) = (hex(&TRAILER_MAGIC), hex(&trailer.magic));
        return Err(Error::corrupt(path, offset.saturating_add(32), expected, found));
    }
    let check = crc32fast::hash(bytes.get(..TRAILER_CHECKED_BYTES).unwrap_or_default());
    if check != trailer.check.get() {
        let found = format!("{:08x}", trailer.check.get());
        return Err(Error::corrupt(path, offset, format!("trailer check {check:08x}"), found));
    }
    check_format(path, offset.saturating_add(24), trailer.format.get())?;
    let place = FooterPlace {
        offset: trailer.footer_offset.get(),
        bytes: trailer.footer_bytes.get(),
        check: trailer.footer_check.get(),
    };
    if place.offset.checked_add(place.bytes) != Some(offset) {
        let found = format!("one at {} of {} bytes", place.offset, place.bytes);
        return Err(Error::corrupt(path, offset, format!("a footer that ends at {offset}"), found));
    }
    Ok(place)
}

/// Bytes as hexadecimal digits, for errors.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
