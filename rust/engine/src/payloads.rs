//! Reading payloads, on the thread of whoever wants them. The newest segments are mapped; older
//! ones and runs are read, so that a deep backlog does not fill the memory with mapped pages.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::segment_path;
use delaymq_core::record::RawRecord;
use delaymq_core::record::header::{RECORD_HEADER_BYTES, read_record};
use delaymq_core::record::message::{Message, decode_message};
use delaymq_core::run::{read_payload, run_path};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::units::{Location, LocationFile, Millis, SegmentNumber, Sequence, SubjectNumber};

use crate::delivery::{Payload, PayloadForm};
use crate::held;
use crate::mapping::Mapping;

/// Segments that stay mapped.
const MAPPED_SEGMENTS: usize = 8;
/// Files that stay open for reading.
const OPEN_FILES: usize = 64;

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
        match location.file() {
            LocationFile::Segment(number) => match self.mapping(number) {
                // Where the mapping does not show a whole message, reading finds it or says why not.
                Some(mapping) => match read_mapped(&mapping, location, sequence) {
                    Some(stored) => Ok(stored),
                    None => self.read_file(&segment_path(number), location, sequence),
                },
                None => self.read_file(&segment_path(number), location, sequence),
            },
            LocationFile::Run(number) => self.read_file(&run_path(number), location, sequence),
        }
    }

    /// Lets go of a file that is going to be removed, so that its room becomes free.
    pub(crate) fn forget(&self, path: &str) {
        let mut cache = held(&self.cache);
        cache.open.remove(path);
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

    fn read_file(&self, path: &str, location: Location, sequence: Sequence) -> Result<Stored> {
        let at = u64::from(location.offset());
        let file = match self.file(path) {
            Err(error) if error.is_not_found() => return Err(damaged(path, at, sequence, "the file", "none")),
            other => other?,
        };
        let mut bytes = Vec::new();
        read_payload(file.as_ref(), at, sequence, None, &mut bytes)?;
        let whole = read_record(&bytes, sequence).ok().and_then(|record| Some((record, decode_message(&record)?)));
        let Some((record, message)) = whole else {
            let found = bytes.get(4).map_or_else(String::new, |kind| format!("kind {kind}"));
            return Err(damaged(path, at, sequence, "a message", &found));
        };
        let payload = Payload::owned(record.payload, form_of(&record, &message));
        Ok(Stored { due: message.due, published: message.published, subject: message.subject, payload })
    }
}

/// The message at `location`; `None` where anything about it is not as it must be.
fn read_mapped(mapping: &Arc<Mapping>, location: Location, sequence: Sequence) -> Option<Stored> {
    let at = location.offset() as usize;
    let record = read_record(mapping.bytes().get(at..)?, sequence).ok().filter(RawRecord::payload_is_whole)?;
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
        let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(folder.path(), false).unwrap());
        let payloads = Payloads::new(folder.path().to_owned(), storage);
        (folder, payloads, places)
    }

    #[test]
    fn mapped_and_read_payloads_are_the_same() {
        let (_folder, payloads, places) = segment_of(&[(1, 10), (2, 100_000), (3, 0)]);
        for (place, (sequence, length)) in places.iter().zip([(1, 10), (2, 100_000), (3, 0)]) {
            let location = Location::in_segment(SegmentNumber(1), *place);
            let mapped = payloads.read(location, Sequence(sequence)).unwrap();
            let read = payloads.read_file(&segment_path(SegmentNumber(1)), location, Sequence(sequence)).unwrap();
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
}
