//! The bytes of one file: those that are seen, those that are durable, and what lies between.

use std::collections::BTreeMap;

use super::chance::Chance;

/// Which file; names come and go, a file stays while it is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FileId(pub(super) usize);

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// One change since the last sync.
#[derive(Clone, Debug)]
struct Change {
    offset: usize,
    bytes: Vec<u8>,
    /// The file's length after it.
    length: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
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
        put(&mut self.live, offset, bytes, length);
        self.unsynced.push(Change { offset, bytes: bytes.to_vec(), length });
    }

    /// Some of the sectors of a write that failed.
    pub(super) fn write_some(&mut self, offset: usize, bytes: &[u8], chance: &mut Chance) {
        for (at, piece) in sectors(offset, bytes) {
            if chance.coin() {
                self.write(at, piece);
            }
        }
    }

    pub(super) fn allocate(&mut self, length: usize) {
        let length = self.live.len().max(length);
        self.live.resize(length, 0);
        self.unsynced.push(Change { offset: 0, bytes: Vec::new(), length });
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            put(&mut self.durable, change.offset, &change.bytes, change.length);
        }
    }

    /// A sync that failed: some of it is durable, and the rest counts as clean and never will be.
    pub(super) fn sync_some(&mut self, chance: &mut Chance) {
        self.durable = self.survivor(chance);
        self.unsynced.clear();
    }

    /// The durable bytes after a power cut that loses all that was not synced.
    pub(super) fn keep_synced(&mut self) {
        self.unsynced.clear();
        self.live.clone_from(&self.durable);
    }

    /// The durable bytes after a power cut that keeps what chance keeps.
    pub(super) fn keep_some(&mut self, chance: &mut Chance) {
        if !self.unsynced.is_empty() {
            self.durable = self.survivor(chance);
        }
        self.keep_synced();
    }

    /// Each sector as it was at some moment since the last sync, whatever the others are.
    fn survivor(&self, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let changes = self.unsynced.len();
        // Often all or nothing, else the middle is all that is ever tried.
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

    /// Flips bits of a byte in every version of it.
    pub(super) fn damage(&mut self, offset: usize, mask: u8) -> bool {
        for change in &mut self.unsynced {
            if let Some(byte) = offset.checked_sub(change.offset).and_then(|at| change.bytes.get_mut(at)) {
                *byte ^= mask;
            }
        }
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= mask;
        }
        self.live.get_mut(offset).map(|byte| *byte ^= mask).is_some()
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

/// The pieces of a write, cut where sectors end.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = SECTOR.saturating_sub(offset % SECTOR).min(bytes.len());
    let (head, tail) = bytes.split_at_checked(first).unwrap_or((bytes, &[]));
    let tail_at = offset.saturating_add(first);
    let rest = tail.chunks(SECTOR).enumerate().map(move |(number, piece)| (tail_at + number * SECTOR, piece));
    std::iter::once((offset, head)).filter(|(_, piece)| !piece.is_empty()).chain(rest)
}
