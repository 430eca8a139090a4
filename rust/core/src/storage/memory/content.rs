//! The bytes of one file: the visible ones, the durable ones, and the changes between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chance::Chance;

/// Identifies a file: names change, but a file stays while it is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FileId(pub(super) usize);

/// The bytes that a disk writes as a whole or not at all.
pub(super) const SECTOR: usize = 512;

/// One change since the last sync.
#[derive(Clone, Debug)]
struct Change {
    offset: usize,
    bytes: Arc<[u8]>,
    /// The file's length after the change.
    length: usize,
}

/// A file's content. Copies share the bytes that neither has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    unsynced: Vec<Change>,
}

impl Content {
    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.live.len());
        let end = start.saturating_add(into.len()).min(self.live.len());
        let bytes = self.live.get(start..end).unwrap_or_default();
        if let Some(into) = into.get_mut(..bytes.len()) {
            into.copy_from_slice(bytes);
        }
        bytes.len()
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let length = self.live.len().max(offset.saturating_add(bytes.len()));
        put(Arc::make_mut(&mut self.live), offset, bytes, length);
        self.unsynced.push(Change { offset, bytes: bytes.into(), length });
    }

    /// Writes some of the sectors of a failed write.
    pub(super) fn write_some(&mut self, offset: usize, bytes: &[u8], chance: &mut Chance) {
        for (at, piece) in sectors(offset, bytes) {
            if chance.coin() {
                self.write(at, piece);
            }
        }
    }

    pub(super) fn allocate(&mut self, length: usize) {
        let length = self.live.len().max(length);
        Arc::make_mut(&mut self.live).resize(length, 0);
        self.unsynced.push(Change { offset: 0, bytes: Arc::default(), length });
    }

    /// Replaces existing bytes by zeros; writes none past the end.
    pub(super) fn punch(&mut self, offset: usize, length: usize) {
        let end = offset.saturating_add(length).min(self.live.len());
        if offset < end {
            self.write(offset, &vec![0; end.saturating_sub(offset)]);
        }
    }

    pub(super) fn sync(&mut self) {
        if !self.unsynced.is_empty() {
            let durable = Arc::make_mut(&mut self.durable);
            for change in self.unsynced.drain(..) {
                put(durable, change.offset, &change.bytes, change.length);
            }
        }
    }

    /// A failed sync: some changes become durable. The rest counts as clean and never becomes durable.
    pub(super) fn sync_some(&mut self, chance: &mut Chance) {
        self.durable = Arc::new(self.survivor(chance));
        self.unsynced.clear();
    }

    /// Sets the durable bytes after a power cut that loses all unsynced changes.
    pub(super) fn keep_synced(&mut self) {
        self.unsynced.clear();
        self.live = Arc::clone(&self.durable);
    }

    /// Sets the durable bytes after a power cut that keeps a random part.
    pub(super) fn keep_some(&mut self, chance: &mut Chance) {
        if !self.unsynced.is_empty() {
            self.durable = Arc::new(self.survivor(chance));
        }
        self.keep_synced();
    }

    /// Each sector as it was at a random moment since the last sync, independent of the others.
    fn survivor(&self, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.durable.as_ref().clone();
        let changes = self.unsynced.len();
        // Often all changes or none: otherwise only mixtures would be tried.
        let (least, most) = match chance.up_to(3) {
            0 => (0, 0),
            1 => (changes, changes),
            _ => (0, changes),
        };
        let reach = |chance: &mut Chance| least.max(chance.up_to(most));
        let length_at = reach(chance);
        let length = length_at.checked_sub(1).and_then(|last| self.unsynced.get(last)).map(|change| change.length);
        let length = length.unwrap_or(self.durable.len());
        let mut kept_until: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, change) in self.unsynced.iter().enumerate() {
            for (at, piece) in sectors(change.offset, &change.bytes) {
                let until = *kept_until.entry(at / SECTOR).or_insert_with(|| reach(chance));
                if number < until {
                    let end = bytes.len().max(at.saturating_add(piece.len()));
                    put(&mut bytes, at, piece, end);
                }
            }
        }
        bytes.resize(length.max(self.durable.len()), 0);
        bytes
    }

    /// Writes the first `kept` bytes of a write in which the machine stops.
    pub(super) fn write_prefix(&mut self, offset: usize, bytes: &[u8], kept: usize) {
        let kept = bytes.get(..kept).unwrap_or(bytes);
        if !kept.is_empty() {
            self.write(offset, kept);
        }
    }

    /// The lengths that a power cut may leave, each once, the durable one first.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let mut lengths = vec![self.durable.len()];
        for change in &self.unsynced {
            if !lengths.contains(&change.length) {
                lengths.push(change.length);
            }
        }
        lengths
    }

    /// For each sector that a power cut may leave in more than one state: its start, and its different contents
    /// after each change, the durable one first. Bytes past the end are zero.
    pub(super) fn sectors(&self) -> Vec<(usize, Vec<Vec<u8>>)> {
        let mut versions: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for change in &self.unsynced {
            for (at, piece) in sectors(change.offset, &change.bytes) {
                let start = at - at % SECTOR;
                let known = versions.entry(start).or_insert_with(|| vec![sector_of(&self.durable, start)]);
                let mut bytes = known.last().cloned().unwrap_or_default();
                put(&mut bytes, at - start, piece, SECTOR);
                if !known.contains(&bytes) {
                    known.push(bytes);
                }
            }
        }
        versions.into_iter().filter(|(_, versions)| versions.len() > 1).collect()
    }

    /// Sets the durable bytes after a power cut that leaves this length and these sectors.
    pub(super) fn keep_chosen(&mut self, length: usize, sectors: &[(usize, &[u8])]) {
        self.unsynced.clear();
        if !sectors.is_empty() || length != self.durable.len() {
            let durable = Arc::make_mut(&mut self.durable);
            for (at, bytes) in sectors {
                put(durable, *at, bytes, at.saturating_add(bytes.len()));
            }
            durable.resize(length, 0);
        }
        self.live = Arc::clone(&self.durable);
    }

    /// The last unsynced write, and the bytes before it at its place.
    pub(super) fn last_write(&self) -> Option<(Vec<u8>, Arc<[u8]>)> {
        let (last, before) = self.unsynced.split_last().filter(|(last, _)| !last.bytes.is_empty())?;
        let mut bytes = self.durable.as_ref().clone();
        for change in before {
            put(&mut bytes, change.offset, &change.bytes, change.length);
        }
        let end = last.offset.saturating_add(last.bytes.len());
        bytes.resize(bytes.len().max(end), 0);
        Some((bytes.get(last.offset..end).unwrap_or_default().to_vec(), Arc::clone(&last.bytes)))
    }

    /// Sets the durable bytes after a power cut during the last write, which kept its first `kept` bytes.
    pub(super) fn keep_torn(&mut self, kept: usize) {
        if let Some(last) = self.unsynced.pop() {
            self.sync();
            let piece = last.bytes.get(..kept).unwrap_or(&last.bytes);
            let end = self.durable.len().max(last.offset.saturating_add(piece.len()));
            put(Arc::make_mut(&mut self.durable), last.offset, piece, end);
        }
        self.keep_everything();
    }

    /// Sets the durable bytes after a power cut that loses nothing.
    pub(super) fn keep_everything(&mut self) {
        self.sync();
        self.live = Arc::clone(&self.durable);
    }

    /// Flips bits of a byte in every version of it.
    pub(super) fn damage(&mut self, offset: usize, mask: u8) -> bool {
        for change in &mut self.unsynced {
            let place = offset.checked_sub(change.offset).filter(|at| *at < change.bytes.len());
            if let Some(byte) = place.and_then(|at| Arc::make_mut(&mut change.bytes).get_mut(at)) {
                *byte ^= mask;
            }
        }
        if let Some(byte) = Arc::make_mut(&mut self.durable).get_mut(offset) {
            *byte ^= mask;
        }
        Arc::make_mut(&mut self.live).get_mut(offset).map(|byte| *byte ^= mask).is_some()
    }
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8], length: usize) {
    if into.len() < length {
        into.resize(length, 0);
    }
    if let Some(place) = into.get_mut(offset..offset.saturating_add(bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

/// A sector's bytes, with zeros past the end of the file.
fn sector_of(bytes: &[u8], start: usize) -> Vec<u8> {
    let mut sector = bytes.get(start..bytes.len().min(start.saturating_add(SECTOR))).unwrap_or_default().to_vec();
    sector.resize(SECTOR, 0);
    sector
}

/// The pieces of a write, split at sector boundaries.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = SECTOR.saturating_sub(offset % SECTOR).min(bytes.len());
    let (head, tail) = bytes.split_at_checked(first).unwrap_or((bytes, &[]));
    let tail_at = offset.saturating_add(first);
    let rest = tail.chunks(SECTOR).enumerate().map(move |(number, piece)| (tail_at + number * SECTOR, piece));
    std::iter::once((offset, head)).filter(|(_, piece)| !piece.is_empty()).chain(rest)
}
