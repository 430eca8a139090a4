//! Reading payloads, on the thread of whoever wants them. The newest segments are mapped; older
//! ones and runs are read, in blocks where one payload lies behind the other, so that a deep backlog
//! does not fill the memory with mapped pages.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::segment_path;
use delaymq_core::record::RawRecord;
use delaymq_core::record::header::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, read_record};
use delaymq_core::record::message::{Message, decode_message};
use delaymq_core::run::{read_payload, run_path};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::units::{Location, LocationFile, Millis, SegmentNumber, Sequence, SubjectNumber, padded};

use crate::blocks::{Block, Blocks};
use crate::delivery::{Payload, PayloadForm};
use crate::held;
use crate::mapping::Mapping;
use crate::sync::Mutex;

/// Segments that stay mapped.
const MAPPED_SEGMENTS: usize = 8;
/// Files that stay open for reading.
const OPEN_FILES: usize = 64;

/// Bytes that are asked for where a payload begins: most are smaller.
const FIRST_READ_BYTES: u64 = 4_096;
/// Bytes between two payloads that are asked for with them.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// Pieces that are asked for at once, at most.
const PIECES_MAX: usize = 1_024;

/// A message as it was stored, its payload checked.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) due: Millis,
    pub(crate) published: Millis,
    pub(crate) subject: SubjectNumber,
    pub(crate) payload: Payload,
}

#[derive(Default)]
struct Cache {
    mapped: BTreeMap<SegmentNumber, Arc<Mapping>>,
    open: HashMap<String, Arc<dyn StorageFile>>,
    blocks: Blocks,
}

/// See the module.
pub(crate) struct Payloads {
    root: PathBuf,
    storage: Arc<dyn Storage>,
    cache: Mutex<Cache>,
}

impl Payloads {
    pub(crate) fn new(root: PathBuf, storage: Arc<dyn Storage>) -> Self {
        Self { root, storage, cache: Mutex::default() }
    }

    /// Reads the message at `location`, whose record has `sequence`.
    ///
    /// # Errors
    /// `DamagedPayload` where record or payload fail their check, the file is too short or is not
    /// there; `Storage` where it could not be read, which may pass.
    pub(crate) fn read(&self, location: Location, sequence: Sequence) -> Result<Stored> {
        // Where neither mapping nor block show a whole message, reading finds it or says why not.
        let mapping = location.segment().and_then(|number| self.mapping(number));
        if let Some(stored) = mapping.and_then(|mapping| read_mapped(&mapping, location, sequence)) {
            return Ok(stored);
        }
        let block = held(&self.cache).blocks.holding(location);
        if let Some(stored) = block.and_then(|block| read_in(block.bytes_from(location), sequence)) {
            return Ok(stored);
        }
        let path = path_of(location.file());
        let file = match self.file(&path) {
            Err(error) if error.is_not_found() => {
                return Err(damaged(&path, u64::from(location.offset()), sequence, "the file", "none"));
            }
            other => other?,
        };
        match self.read_walking(file.as_ref(), location, sequence) {
            Some(stored) => Ok(stored),
            None => read_alone(file.as_ref(), location, sequence),
        }
    }

    /// Asks the disk for payloads that will be read soon, without waiting for it: where they lie close
    /// together, as those of a backlog do, in few large pieces. What it cannot ask for, it lets be.
    pub(crate) fn prefetch(&self, locations: impl Iterator<Item = Location>) {
        for piece in pieces_of(locations) {
            if let Ok(file) = self.file(&path_of(piece.file)) {
                file.prefetch(piece.start, piece.end.saturating_sub(piece.start));
            }
        }
    }

    /// Lets go of a file that is going to be removed, so that its room becomes free.
    pub(crate) fn forget(&self, path: &str) {
        let mut cache = held(&self.cache);
        cache.open.remove(path);
        cache.blocks.forget(|file| path_of(file) == path);
        cache.mapped.retain(|number, _| segment_path(*number) != path);
    }

    /// The mapping of one of the newest segments; `None` where it is to be read otherwise.
    fn mapping(&self, number: SegmentNumber) -> Option<Arc<Mapping>> {
        let mut cache = held(&self.cache);
        if let Some(mapping) = cache.mapped.get(&number) {
            return Some(Arc::clone(mapping));
        }
        let oldest = cache.mapped.keys().next().copied();
        let is_full = cache.mapped.len() >= MAPPED_SEGMENTS;
        if is_full && oldest.is_some_and(|oldest| number < oldest) {
            return None;
        }
        let path = segment_path(number);
        // Where it cannot be mapped, reading it says why.
        let mapping = Arc::new(Mapping::open(&self.root.join(&path), &path).ok()?);
        if is_full {
            cache.mapped.pop_first();
        }
        cache.mapped.insert(number, Arc::clone(&mapping));
        Some(mapping)
    }

    fn file(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let mut cache = held(&self.cache);
        if let Some(file) = cache.open.get(path) {
            return Ok(Arc::clone(file));
        }
        let file = self.storage.open(path)?;
        if cache.open.len() >= OPEN_FILES {
            cache.open.clear();
        }
        cache.open.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Reads the message with those behind it, where the one before it was read just now.
    fn read_walking(&self, file: &dyn StorageFile, location: Location, sequence: Sequence) -> Option<Stored> {
        if !held(&self.cache).blocks.is_walk(location) {
            return None;
        }
        let block = Block::read(file, location).ok()?;
        let stored = read_in(block.bytes_from(location), sequence)?;
        held(&self.cache).blocks.keep(Arc::new(block));
        Some(stored)
    }
}

fn path_of(file: LocationFile) -> String {
    match file {
        LocationFile::Segment(number) => segment_path(number),
        LocationFile::Run(number) => run_path(number),
    }
}

/// Reads one message, and nothing beside it.
fn read_alone(file: &dyn StorageFile, location: Location, sequence: Sequence) -> Result<Stored> {
    let at = u64::from(location.offset());
    let mut bytes = Vec::new();
    read_payload(file, at, sequence, None, &mut bytes)?;
    let record = read_record(&bytes, sequence).ok();
    record.and_then(|record| copied(&record)).ok_or_else(|| {
        let found = bytes.get(4).map_or_else(String::new, |kind| format!("kind {kind}"));
        damaged(file.path(), at, sequence, "a message", &found)
    })
}

/// The message with which these bytes begin; `None` where anything about it is not as it must be.
fn read_in(bytes: &[u8], sequence: Sequence) -> Option<Stored> {
    copied(&read_record(bytes, sequence).ok().filter(RawRecord::payload_is_whole)?)
}

/// The message of this record; `None` where it is none.
fn copied(record: &RawRecord<'_>) -> Option<Stored> {
    let message = decode_message(record)?;
    let payload = Payload::owned(record.payload, form_of(record, &message));
    Some(Stored { due: message.due, published: message.published, subject: message.subject, payload })
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FilePiece {
    file: LocationFile,
    start: u64,
    end: u64,
}

/// What is to be read for these, sorted: what has a small gap between is one piece.
fn pieces_of(locations: impl Iterator<Item = Location>) -> Vec<FilePiece> {
    let mut sorted: Vec<Location> = locations.filter(|location| *location != Location::NOWHERE).collect();
    sorted.sort_unstable();
    let mut pieces: Vec<FilePiece> = Vec::new();
    for location in sorted {
        let (file, start) = (location.file(), u64::from(location.offset()));
        let end = start.saturating_add(FIRST_READ_BYTES);
        let is_near = |last: &&mut FilePiece| last.file == file && start <= last.end.saturating_add(GAP_BYTES_MAX);
        match pieces.last_mut().filter(is_near) {
            Some(last) => last.end = end,
            None => pieces.push(FilePiece { file, start, end }),
        }
    }
    pieces.truncate(PIECES_MAX);
    pieces
}

/// The message at `location`; `None` where anything about it is not as it must be.
fn read_mapped(mapping: &Arc<Mapping>, location: Location, sequence: Sequence) -> Option<Stored> {
    let at = location.offset() as usize;
    let said = mapping.bytes_at(at, RECORD_HEADER_BYTES)?.first_chunk::<4>()?;
    let said = u32::from_le_bytes(*said) as usize;
    let whole = mapping.bytes_at(at, padded(said.min(RECORD_BYTES_MAX)))?;
    let record = read_record(whole, sequence).ok().filter(RawRecord::payload_is_whole)?;
    let message = decode_message(&record)?;
    let start = at.saturating_add(RECORD_HEADER_BYTES).saturating_add(record.fixed.len());
    let payload = Payload::mapped(Arc::clone(mapping), start, form_of(&record, &message));
    Some(Stored { due: message.due, published: message.published, subject: message.subject, payload })
}

fn form_of(record: &RawRecord<'_>, message: &Message<'_>) -> PayloadForm {
    PayloadForm {
        is_opaque: message.opaque,
        meta_length: length_of(message.meta),
        length: length_of(record.payload),
        check: record.header.payload_check.get(),
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn damaged(path: &str, offset: u64, sequence: Sequence, expected: &str, found: &str) -> Error {
    Error::DamagedPayload {
        sequence: sequence.0,
        path: path.to_owned(),
        offset,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use delaymq_core::record::message::encode_message;
    use delaymq_core::record::seal_record;
    use delaymq_core::run::RUN_FOLDER;
    use delaymq_core::units::RunNumber;

    use super::*;
    use crate::files::FileStorage;

    fn segment_of(records: &[(u64, usize)]) -> (tempfile::TempDir, Payloads, Vec<u32>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("log")).unwrap();
        let mut bytes = vec![0; 4096];
        let mut places = Vec::new();
        for (sequence, length) in records {
            let body = vec![*sequence as u8; *length];
            let message = Message {
                due: Millis(9),
                published: Millis(8),
                subject: SubjectNumber(3),
                opaque: true,
                meta: b"meta",
                body: &body,
            };
            let at = bytes.len();
            encode_message(&mut bytes, &message);
            seal_record(&mut bytes[at..], Sequence(*sequence)).unwrap();
            places.push(at as u32);
        }
        std::fs::write(folder.path().join(segment_path(SegmentNumber(1))), &bytes).unwrap();
        // The same bytes as a run's, which is never mapped.
        std::fs::create_dir_all(folder.path().join(RUN_FOLDER)).unwrap();
        std::fs::write(folder.path().join(run_path(RunNumber(1))), &bytes).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(folder.path(), false).unwrap());
        let payloads = Payloads::new(folder.path().to_owned(), storage);
        (folder, payloads, places)
    }

    #[test]
    fn mapped_and_read_payloads_are_the_same() {
        let (_folder, payloads, places) = segment_of(&[(1, 10), (2, 100_000), (3, 0)]);
        let file = payloads.file(&segment_path(SegmentNumber(1))).unwrap();
        for (place, (sequence, length)) in places.iter().zip([(1, 10), (2, 100_000), (3, 0)]) {
            let location = Location::in_segment(SegmentNumber(1), *place);
            let mapped = payloads.read(location, Sequence(sequence)).unwrap();
            let read = read_alone(file.as_ref(), location, Sequence(sequence)).unwrap();
            assert_eq!(mapped.payload.body(), vec![sequence as u8; length]);
            assert_eq!(mapped.payload.all(), read.payload.all());
            assert_eq!(read.payload.meta(), b"meta");
            assert!(read.payload.is_opaque() && mapped.payload.is_opaque());
            assert_eq!([mapped.payload.check(), read.payload.check()], [crc32fast::hash(read.payload.all()); 2]);
            assert_eq!((read.subject, read.published), (SubjectNumber(3), Millis(8)));
        }
    }

    #[test]
    fn another_sequence_and_a_missing_file_are_damage() {
        let (_folder, payloads, places) = segment_of(&[(1, 10)]);
        let location = Location::in_segment(SegmentNumber(1), places[0]);
        assert!(matches!(payloads.read(location, Sequence(2)), Err(Error::DamagedPayload { sequence: 2, .. })));
        let elsewhere = Location::in_segment(SegmentNumber(2), places[0]);
        assert!(matches!(payloads.read(elsewhere, Sequence(1)), Err(Error::DamagedPayload { .. })));
        let beyond = Location::in_segment(SegmentNumber(1), 1 << 30);
        assert!(matches!(payloads.read(beyond, Sequence(1)), Err(Error::DamagedPayload { .. })));
    }

    fn run_at(place: u32) -> Location {
        Location::in_run(RunNumber(1), place)
    }

    #[test]
    fn who_walks_through_a_file_reads_it_in_blocks() {
        let records: Vec<(u64, usize)> =
            (1..=3_000).map(|sequence| (sequence, (sequence as usize * 37) % 300)).collect();
        let (folder, payloads, places) = segment_of(&records);
        let read = |at: usize| payloads.read(run_at(places[at]), Sequence(records[at].0));
        for (at, (sequence, length)) in records.iter().enumerate() {
            assert_eq!(read(at).unwrap().payload.body(), vec![*sequence as u8; *length], "{at}");
        }
        // What was read is there although the file is not: all but what lay before the oldest block.
        std::fs::remove_file(folder.path().join(run_path(RunNumber(1)))).unwrap();
        held(&payloads.cache).open.clear();
        assert!((1..records.len()).all(|at| read(at).is_ok()), "blocks of 64 KiB hold them all but the first");
        assert!(matches!(read(0), Err(Error::DamagedPayload { .. })), "it was read alone");
        payloads.forget(&run_path(RunNumber(1)));
        assert!((0..records.len()).all(|at| read(at).is_err()), "a file that is removed is forgotten");
    }

    #[test]
    fn what_is_not_whole_in_a_block_is_looked_for_in_the_file() {
        let records: Vec<(u64, usize)> = (1..=600).map(|sequence| (sequence, 200)).collect();
        let (folder, payloads, places) = segment_of(&records);
        let path = folder.path().join(run_path(RunNumber(1)));
        let whole = std::fs::read(&path).unwrap();
        let mut early = whole.clone();
        early[places[100] as usize..].fill(0);
        std::fs::write(&path, &early).unwrap();
        let read = |at: usize| payloads.read(run_at(places[at]), Sequence(records[at].0));
        assert!((0..100).all(|at| read(at).is_ok()) && read(100).is_err());
        std::fs::write(&path, &whole).unwrap();
        assert!((0..records.len()).all(|at| read(at).is_ok()), "the block is older than the file's end");
    }

    #[test]
    fn damage_within_a_block_is_told_of_its_own_message() {
        let records: Vec<(u64, usize)> = (1..=100).map(|sequence| (sequence, 200)).collect();
        let (folder, payloads, places) = segment_of(&records);
        let path = folder.path().join(run_path(RunNumber(1)));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[places[60] as usize + 100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        for (at, (sequence, _)) in records.iter().enumerate() {
            match payloads.read(run_at(places[at]), Sequence(*sequence)) {
                Err(Error::DamagedPayload { sequence: 61, .. }) => assert_eq!(at, 60),
                other => assert!(other.is_ok() && at != 60, "{at}"),
            }
        }
    }

    #[test]
    fn what_lies_close_together_is_one_piece() {
        let at = |segment: u32, offset: u32| Location::in_segment(SegmentNumber(segment), offset);
        let piece = |segment: u32, start: u64, end: u64| FilePiece {
            file: LocationFile::Segment(SegmentNumber(segment)),
            start,
            end,
        };
        let near = [at(2, 9_000), at(1, 200), at(1, 100), Location::NOWHERE, at(1, 30_000), at(1, 90_000)];
        let found = pieces_of(near.into_iter());
        assert_eq!(found, [piece(1, 100, 34_096), piece(1, 90_000, 94_096), piece(2, 9_000, 13_096)]);
        let far = (0..2_000).map(|number| at(1, number * 100_000));
        assert_eq!(pieces_of(far).len(), PIECES_MAX);
        let (_folder, payloads, places) = segment_of(&[(1, 10)]);
        // Advice only: a file that is not there is let be.
        payloads.prefetch([at(1, places[0]), at(7, 4_096)].into_iter());
        assert_eq!(held(&payloads.cache).open.len(), 1);
    }
}
