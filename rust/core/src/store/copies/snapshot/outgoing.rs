//! The files of a store, as another node gets them. A pin must keep them from before [`OutgoingSnapshot::of`] until the end.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::{Mark, Stream, list_segments, segment_path};
use crate::replication::{FilePart, FilePlace, SentFile, SnapshotFile, SnapshotOffer};
use crate::run::{LOAD_FOLDER, LoadName};
use crate::storage::{Storage, StorageFile, names_in, read_upto};
use crate::store::checkpoint::paths::checkpoint_path;
use crate::store::recovery::newest::newest_checkpoint;
use crate::units::{SegmentNumber, Sequence};

/// Bytes that are read, and sent, at once: as many as the other node writes before it syncs them.
const PART_BYTES: usize = 256 << 10;
/// The most zeros that one part stands for.
const ZEROS_MAX: u64 = 8 << 20;

/// A file, and how many of its bytes are sent. The rest counts as zeros.
struct Source {
    path: String,
    length: u64,
    filled: u64,
}

/// See the module.
pub struct OutgoingSnapshot {
    storage: Arc<dyn Storage>,
    committed: Sequence,
    end: Sequence,
    sources: Vec<Source>,
    /// The file that was read last.
    opened: Option<(u32, Arc<dyn StorageFile>)>,
}

impl OutgoingSnapshot {
    /// The newest checkpoint, with everything that it needs and the log up to its written end, which is asked for after the
    /// checkpoint was read.
    ///
    /// # Errors
    /// `MissingFile` if a file was removed before the pin was there; `NewerFormat`; those of the storage.
    pub fn of(storage: Arc<dyn Storage>, stream: Stream, written: impl FnOnce() -> Mark) -> Result<Self> {
        let newest = newest_checkpoint(storage.as_ref(), &stream)?;
        let written = written();
        let mut paths = Vec::new();
        let (mut floor, mut committed) = (SegmentNumber(1), Sequence(1));
        if let Some(read) = newest {
            let kept = read.kept();
            (floor, committed) = (kept.floor, kept.next_sequence);
            paths.push(checkpoint_path(read.number));
            paths.extend(kept.runs.iter().filter(|run| !kept.loads.contains_key(run)).map(|run| kept.path_of(*run)));
        }
        // Facts behind the checkpoint may name others than the checkpoint does.
        let loads = names_in(storage.as_ref(), LOAD_FOLDER)?;
        paths.extend(loads.iter().filter_map(|name| LoadName::parse(name)).map(|name| name.path()));
        let (last, filled) = (written.location.segment(), u64::from(written.location.offset()));
        let mut sources = Vec::new();
        for path in paths {
            sources.push(Source::whole(storage.as_ref(), path)?);
        }
        for number in list_segments(storage.as_ref())?.into_iter().filter(|number| *number >= floor) {
            let source = Source::whole(storage.as_ref(), segment_path(number))?;
            match last.map(|last| number.cmp(&last)) {
                Some(std::cmp::Ordering::Less) => sources.push(source),
                Some(std::cmp::Ordering::Equal) => sources.push(Source { filled: filled.min(source.length), ..source }),
                // Prepared, and not used before the end of this log.
                _ => {}
            }
        }
        Ok(Self { storage, committed, end: written.sequence, sources, opened: None })
    }

    /// The snapshot, as the other node hears of it first.
    pub fn offer(&self, number: u64) -> SnapshotOffer {
        let file = |source: &Source| SnapshotFile { path: source.path.clone(), length: source.length };
        SnapshotOffer {
            number,
            committed: self.committed,
            end: self.end,
            bytes: self.bytes(),
            files: self.sources.iter().map(file).collect(),
        }
    }

    fn bytes(&self) -> u64 {
        self.sources.iter().fold(0, |bytes, source| bytes.saturating_add(source.filled))
    }

    /// The part that begins there. `None` if no file has a byte there.
    ///
    /// # Errors
    /// Those of the storage, of which `NotFound` means that the files were not kept.
    pub fn part(&mut self, place: FilePlace) -> Result<Option<FilePart>> {
        let SentFile::Snapshot { file: number, .. } = place.file else { return Ok(None) };
        let Some(source) = self.sources.get(number as usize).filter(|source| place.offset < source.length) else {
            return Ok(None);
        };
        let (length, filled) = (source.length, source.filled);
        let file = match &self.opened {
            Some((opened, file)) if *opened == number => Arc::clone(file),
            _ => self.storage.open(&source.path)?,
        };
        self.opened = Some((number, Arc::clone(&file)));
        let mut at = place.offset;
        let passed = |at: u64| at.saturating_sub(place.offset);
        while at < filled && passed(at) < ZEROS_MAX {
            let wanted = usize::try_from(filled.saturating_sub(at)).unwrap_or(usize::MAX).min(PART_BYTES);
            let bytes = read_upto(file.as_ref(), at, wanted)?;
            if bytes.len() < wanted {
                let expected = format!("{length} bytes");
                return Err(Error::corrupt(file.path(), at, expected, "an end of the file"));
            }
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(Some(FilePart { place, zeros: passed(at), bytes }));
            }
            at = at.saturating_add(wanted as u64);
        }
        let end = if at >= filled { length } else { at };
        Ok(Some(FilePart { place, zeros: passed(end), bytes: Vec::new() }))
    }
}

impl Source {
    fn whole(storage: &dyn Storage, path: String) -> Result<Self> {
        let length = match storage.open(&path) {
            Err(error) if error.is_not_found() => {
                return Err(Error::MissingFile { path, reason: "a snapshot needs it".to_owned() });
            }
            other => other?.length()?,
        };
        Ok(Self { path, length, filled: length })
    }
}
