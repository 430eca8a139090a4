//! Payloads, read on the thread that needs them. The newest segments are mapped. Older segments and runs are read in
//! blocks, so that a deep backlog does not fill the memory with mapped pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use delaymq_core::error::Result;
use delaymq_core::message_log::segment_path;
use delaymq_core::run::{LoadedRuns, Run, run_path};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::units::{Location, LocationFile, SegmentNumber};

use crate::files::block_cache::{Block, Blocks};
use crate::files::mapping::Mapping;
use crate::held;
use crate::sync::{AtomicU32, Mutex};

/// Segments that stay mapped.
const MAPPED_SEGMENTS: u32 = 8;
/// Files that stay open for reading.
const OPEN_FILES: usize = 64;

/// Bytes of the first request for a payload: most are smaller.
const FIRST_READ_BYTES: u64 = 4_096;
/// Payloads with at most this gap between them are requested together.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// The most pieces that are requested together.
const PIECES_MAX: usize = 1_024;

#[derive(Default)]
struct Cache {
    mapped: BTreeMap<SegmentNumber, Arc<Mapping>>,
    /// Every mapping that a reader may still use.
    lent: BTreeMap<SegmentNumber, Weak<Mapping>>,
    /// Segments with holes, which are never mapped again.
    hollow: BTreeSet<SegmentNumber>,
    open: HashMap<String, Arc<dyn StorageFile>>,
    blocks: Blocks,
}

/// See the module.
pub(crate) struct Payloads {
    root: PathBuf,
    storage: Arc<dyn Storage>,
    cache: Mutex<Cache>,
    /// The segment that the log writes to, or an older one.
    newest_segment: AtomicU32,
    loaded: Mutex<LoadedRuns>,
}

impl Payloads {
    pub(crate) fn new(root: PathBuf, storage: Arc<dyn Storage>) -> Self {
        Self { root, storage, cache: Mutex::default(), newest_segment: AtomicU32::new(0), loaded: Mutex::default() }
    }

    /// Sets the loaded runs.
    pub(crate) fn know_loaded(&self, loaded: LoadedRuns) {
        *held(&self.loaded) = loaded;
    }

    /// The loaded run that has a payload, if one has it.
    pub(crate) fn loaded_in(&self, file: LocationFile) -> Option<Arc<Run>> {
        match file {
            LocationFile::Run(_) => held(&self.loaded).get(file).cloned(),
            LocationFile::Segment(_) => None,
        }
    }

    /// The path of a file with payloads.
    pub(crate) fn path_of(&self, file: LocationFile) -> String {
        let loaded = self.loaded_in(file);
        match file {
            LocationFile::Segment(number) => segment_path(number),
            LocationFile::Run(number) => loaded.map_or_else(|| run_path(number), |run| run.file().path().to_owned()),
        }
    }

    /// The log writes to this segment: segments long before it are read, not mapped.
    pub(crate) fn log_is_in(&self, number: SegmentNumber) {
        self.newest_segment.fetch_max(number.0, Ordering::Relaxed);
    }

    /// Asks the disk for payloads that will be read soon, without waiting. Payloads that lie close together, as those
    /// of a backlog, are requested in few large pieces. What cannot be requested is skipped.
    pub(crate) fn prefetch(&self, locations: impl Iterator<Item = Location>) {
        for piece in pieces_of(locations) {
            if let Ok(file) = self.file(&self.path_of(piece.file)) {
                file.prefetch(piece.start, piece.end.saturating_sub(piece.start));
            }
        }
    }

    /// Forgets a file that is going to be removed, so that its space becomes free.
    pub(crate) fn forget(&self, path: &str) {
        let mut cache = held(&self.cache);
        cache.open.remove(path);
        cache.blocks.forget(|file| self.path_of(file) == path);
        cache.mapped.retain(|number, _| segment_path(*number) != path);
        cache.hollow.retain(|number| segment_path(*number) != path);
    }

    /// Drops the mapping of a segment for ever: holes are going to be punched in it, and mapped bytes would turn to
    /// zeros. Returns true once no reader uses the mapping.
    pub(crate) fn is_unmapped(&self, number: SegmentNumber) -> bool {
        let mut cache = held(&self.cache);
        cache.hollow.insert(number);
        cache.mapped.remove(&number);
        cache.lent.get(&number).is_none_or(|lent| lent.strong_count() == 0)
    }

    /// The mapping of one of the newest segments; `None` if it must be read instead.
    pub(crate) fn mapping(&self, number: SegmentNumber) -> Option<Arc<Mapping>> {
        let newest = self.newest_segment.load(Ordering::Relaxed).max(number.0);
        if newest.saturating_sub(number.0) >= MAPPED_SEGMENTS {
            return None;
        }
        let mut cache = held(&self.cache);
        if cache.hollow.contains(&number) {
            return None;
        }
        if let Some(mapping) = cache.mapped.get(&number) {
            return Some(Arc::clone(mapping));
        }
        let path = segment_path(number);
        // If it cannot be mapped, reading it returns the reason.
        let mapping = Arc::new(Mapping::open(&self.root.join(&path), &path).ok()?);
        cache.mapped.retain(|number, _| newest.saturating_sub(number.0) < MAPPED_SEGMENTS);
        cache.mapped.insert(number, Arc::clone(&mapping));
        cache.lent.retain(|_, lent| lent.strong_count() > 0);
        cache.lent.insert(number, Arc::downgrade(&mapping));
        Some(mapping)
    }

    pub(crate) fn file(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
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

    /// The cached block in which the payload at `location` begins.
    pub(crate) fn block_holding(&self, location: Location) -> Option<Arc<Block>> {
        held(&self.cache).blocks.holding(location)
    }

    /// A block from the payload at `location` on, if the payload before it was just read.
    pub(crate) fn walked(&self, file: &dyn StorageFile, location: Location) -> Option<Block> {
        let is_walk = held(&self.cache).blocks.is_walk(location);
        if is_walk { Block::read(file, location).ok() } else { None }
    }

    /// Adds a block for readers that go on.
    pub(crate) fn keep(&self, block: Arc<Block>) {
        held(&self.cache).blocks.keep(block);
    }
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FilePiece {
    file: LocationFile,
    start: u64,
    end: u64,
}

/// The pieces to read for these locations, sorted. Locations with a small gap between them share a piece.
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

#[cfg(test)]
mod tests {
    use delaymq_core::units::Sequence;

    use delaymq_core::error::Error;
    use delaymq_core::record::message::{Message, encode_message};
    use delaymq_core::record::seal_record;
    use delaymq_core::run::RUN_FOLDER;
    use delaymq_core::units::{Millis, RunNumber, SubjectNumber};

    use super::*;
    use crate::files::storage::FileStorage;

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
                expiry: None,
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
        for (place, (sequence, length)) in places.iter().zip([(1, 10), (2, 100_000), (3, 0)]) {
            let location = Location::in_segment(SegmentNumber(1), *place);
            let mapped = payloads.reader().read(location, Sequence(sequence)).unwrap();
            let read = payloads.reader().read(run_at(*place), Sequence(sequence)).unwrap();
            assert_eq!(mapped.payload.body(), vec![sequence as u8; length]);
            assert_eq!(mapped.payload.all(), read.payload.all());
            assert_eq!(read.payload.meta(), b"meta");
            assert!(read.payload.is_opaque() && mapped.payload.is_opaque());
            assert_eq!([mapped.payload.check(), read.payload.check()], [crc32fast::hash(read.payload.all()); 2]);
            assert_eq!((read.subject, read.published), (SubjectNumber(3), Millis(8)));
        }
    }

    #[test]
    fn a_segment_long_before_the_log_is_read_and_not_mapped() {
        let (_folder, payloads, places) = segment_of(&[(1, 10), (2, 20)]);
        let read = || {
            let mut reader = payloads.reader();
            for (place, sequence) in places.iter().zip([1, 2]) {
                reader.read(Location::in_segment(SegmentNumber(1), *place), Sequence(sequence)).unwrap();
            }
            held(&payloads.cache).mapped.len()
        };
        payloads.log_is_in(SegmentNumber(1 + MAPPED_SEGMENTS));
        assert_eq!(read(), 0);
        let (_folder, payloads, places) = segment_of(&[(1, 10)]);
        payloads.log_is_in(SegmentNumber(MAPPED_SEGMENTS));
        payloads.reader().read(Location::in_segment(SegmentNumber(1), places[0]), Sequence(1)).unwrap();
        assert_eq!(held(&payloads.cache).mapped.len(), 1);
        // Reading older files does not move the log's segment back.
        payloads.log_is_in(SegmentNumber(3 + MAPPED_SEGMENTS));
        payloads.log_is_in(SegmentNumber(2));
        assert!(payloads.mapping(SegmentNumber(1)).is_none());
    }

    #[test]
    fn a_segment_with_holes_is_unmapped_when_no_reader_uses_it_and_mapped_no_more() {
        let (_folder, payloads, places) = segment_of(&[(1, 10)]);
        let number = SegmentNumber(1);
        let location = Location::in_segment(number, places[0]);
        let seen = payloads.reader().read(location, Sequence(1)).unwrap();
        assert!(!payloads.is_unmapped(number), "what was handed over lies in the mapping");
        let again = payloads.reader().read(location, Sequence(1)).unwrap();
        assert_eq!(again.payload.body(), seen.payload.body());
        assert!(payloads.mapping(number).is_none() && !payloads.is_unmapped(number));
        drop(seen);
        assert!(payloads.is_unmapped(number), "the other one was read");
        payloads.forget(&segment_path(number));
        assert!(payloads.mapping(number).is_some(), "nothing is remembered of a segment that is gone");
    }

    #[test]
    fn another_sequence_and_a_missing_file_are_damage() {
        let (_folder, payloads, places) = segment_of(&[(1, 10)]);
        let location = Location::in_segment(SegmentNumber(1), places[0]);
        assert!(matches!(
            payloads.reader().read(location, Sequence(2)),
            Err(Error::DamagedPayload { sequence: 2, .. })
        ));
        let elsewhere = Location::in_segment(SegmentNumber(2), places[0]);
        assert!(matches!(payloads.reader().read(elsewhere, Sequence(1)), Err(Error::DamagedPayload { .. })));
        let beyond = Location::in_segment(SegmentNumber(1), 1 << 30);
        assert!(matches!(payloads.reader().read(beyond, Sequence(1)), Err(Error::DamagedPayload { .. })));
    }

    fn run_at(place: u32) -> Location {
        Location::in_run(RunNumber(1), place)
    }

    #[test]
    fn who_walks_through_a_file_reads_it_in_blocks() {
        let records: Vec<(u64, usize)> =
            (1..=3_000).map(|sequence| (sequence, (sequence as usize * 37) % 300)).collect();
        let (folder, payloads, places) = segment_of(&records);
        let read = |at: usize| payloads.reader().read(run_at(places[at]), Sequence(records[at].0));
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
        let read = |at: usize| payloads.reader().read(run_at(places[at]), Sequence(records[at].0));
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
            match payloads.reader().read(run_at(places[at]), Sequence(*sequence)) {
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
        // It is advice only: a file that does not exist is skipped.
        payloads.prefetch([at(1, places[0]), at(7, 4_096)].into_iter());
        assert_eq!(held(&payloads.cache).open.len(), 1);
    }
}
