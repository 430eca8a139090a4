//! One file: the bytes that its readers see, and the bytes that a power cut leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::chance::Chance;
use crate::loss::{Loss, Survival};

/// The bytes that a disk writes as a whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// An unsynced change of a file.
#[derive(Clone, Debug)]
struct Change {
    at: u64,
    offset: usize,
    /// Empty if only the length changed.
    bytes: Vec<u8>,
    length: usize,
}

/// The bytes of one file.
#[derive(Clone, Default, Debug)]
pub(crate) struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Sectors that readers see and that a failed sync did not write: only a new write brings them to the disk, as
    /// with a page that was marked clean.
    given_up: BTreeSet<usize>,
}

fn sectors(offset: usize, length: usize) -> RangeInclusive<usize> {
    (offset / SECTOR_BYTES)..=((offset + length.max(1) - 1) / SECTOR_BYTES)
}

fn lay(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    if let Some(place) = into.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

impl Content {
    pub(crate) fn length(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn read(&self, offset: usize, size: usize) -> &[u8] {
        let end = offset.saturating_add(size).min(self.live.len());
        self.live.get(offset..end).unwrap_or_default()
    }

    pub(crate) fn write(&mut self, at: u64, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        lay(&mut self.live, offset, bytes);
        let touched = sectors(offset, bytes.len());
        let (mut offset, mut bytes) = (offset, bytes.to_vec());
        if touched.clone().any(|sector| self.given_up.contains(&sector)) {
            self.given_up.retain(|sector| !touched.contains(sector));
            offset = touched.start() * SECTOR_BYTES;
            bytes = self.read(offset, (touched.end() + 1) * SECTOR_BYTES - offset).to_vec();
        }
        self.pending.push(Change { at, offset, bytes, length: self.live.len() });
    }

    pub(crate) fn set_length(&mut self, at: u64, length: usize) {
        self.live.resize(length, 0);
        self.pending.push(Change { at, offset: 0, bytes: Vec::new(), length });
    }

    pub(crate) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.durable.resize(change.length, 0);
            lay(&mut self.durable, change.offset, &change.bytes);
        }
    }

    /// A failed sync: some sectors are written to the disk. No later sync writes the others, though readers see
    /// them.
    pub(crate) fn fail_sync(&mut self, chance: &mut Chance) {
        let (first, last) = self.moments().unwrap_or((0, 0));
        let loss = if chance.percent(50) { Loss::All } else { Loss::Any };
        let touched: BTreeSet<usize> = self
            .pending
            .iter()
            .filter(|change| !change.bytes.is_empty())
            .flat_map(|change| sectors(change.offset, change.bytes.len()))
            .collect();
        self.durable = self.survivors(&mut Survival::new(loss, (first, last), last, chance));
        self.pending.clear();
        self.given_up.extend(touched);
    }

    /// The moments of the first and the last unsynced change.
    pub(crate) fn moments(&self) -> Option<(u64, u64)> {
        Some((self.pending.first()?.at, self.pending.last()?.at))
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The bytes that a power cut leaves.
    pub(crate) fn survivors(&self, survival: &mut Survival<'_>) -> Vec<u8> {
        let mut histories: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let (mut lengths, mut moments) = (vec![self.durable.len()], Vec::new());
        for change in &self.pending {
            if !change.bytes.is_empty() {
                let touched = sectors(change.offset, change.bytes.len());
                survival.tear(change.at, *touched.start(), *touched.end());
                for sector in touched {
                    histories.entry(sector).or_default().push(change.at);
                }
            }
            if lengths.last() != Some(&change.length) {
                lengths.push(change.length);
                moments.push(change.at);
            }
        }
        let mut found = self.durable.clone();
        found.resize(lengths.iter().copied().max().unwrap_or(0), 0);
        for (sector, history) in histories {
            let kept = survival.of_sector(sector, &history);
            let last = kept.checked_sub(1).and_then(|place| history.get(place)).copied();
            let (from, to) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
            for change in self.pending.iter().filter(|change| last.is_some_and(|last| change.at <= last)) {
                let end = change.offset + change.bytes.len();
                let (from, to) = (from.max(change.offset), to.min(end));
                let within = from.saturating_sub(change.offset)..to.saturating_sub(change.offset);
                if let Some(bytes) = change.bytes.get(within).filter(|bytes| !bytes.is_empty()) {
                    lay(&mut found, from, bytes);
                }
            }
        }
        let kept = survival.of_history(&moments);
        found.resize(lengths.get(kept).copied().unwrap_or(0), 0);
        found
    }

    /// The file as it is after a power cut.
    pub(crate) fn found(bytes: Vec<u8>) -> Self {
        Self { live: bytes.clone(), durable: bytes, pending: Vec::new(), given_up: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(content: &Content, loss: Loss, horizon: u64, seed: u64) -> Vec<u8> {
        let mut chance = Chance::new(seed);
        let moments = content.moments().unwrap_or((0, 0));
        content.survivors(&mut Survival::new(loss, moments, horizon, &mut chance))
    }

    fn three_sectors() -> Content {
        let mut content = Content::default();
        content.write(1, 0, &[1; 3 * SECTOR_BYTES]);
        content.sync();
        content
    }

    #[test]
    fn what_was_synced_is_found_whatever_is_lost() {
        let mut content = three_sectors();
        content.write(2, 3 * SECTOR_BYTES, &[2; 700]);
        content.sync();
        for loss in [Loss::All, Loss::Later, Loss::Any, Loss::Earlier] {
            assert_eq!(cut(&content, loss, 9, 3), content.live);
        }
    }

    #[test]
    fn all_that_was_not_synced_is_lost() {
        let mut content = three_sectors();
        content.write(2, 10, &[2; 4000]);
        assert_eq!(content.read(10, 1), [2]);
        assert_eq!(cut(&content, Loss::All, 9, 3), [1; 3 * SECTOR_BYTES]);
    }

    #[test]
    fn any_sector_may_be_lost_and_none_is_half() {
        let mut content = three_sectors();
        content.write(2, 0, &[2; 3 * SECTOR_BYTES]);
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let found = cut(&content, Loss::Any, 2, seed);
            let marks: Vec<u8> = found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
            assert!(found.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            seen.insert(marks);
        }
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn a_sector_never_has_a_later_write_without_the_one_before() {
        let mut content = three_sectors();
        content.write(2, 0, &[2; 4]);
        content.write(3, 4, &[3; 4]);
        for seed in 0..100 {
            let found = cut(&content, Loss::Any, 2, seed);
            assert!(found[4] != 3 || found[0] == 2);
        }
    }

    #[test]
    fn what_is_later_is_lost_and_what_is_at_the_moment_is_torn() {
        let mut content = three_sectors();
        content.write(2, 0, &[2; SECTOR_BYTES]);
        content.write(3, 0, &[3; 3 * SECTOR_BYTES]);
        content.write(4, 0, &[4; SECTOR_BYTES]);
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let found = cut(&content, Loss::Later, 3, seed);
            seen.insert([found[0], found[SECTOR_BYTES], found[2 * SECTOR_BYTES]]);
        }
        assert_eq!(seen, BTreeSet::from([[2, 1, 1], [3, 1, 1], [3, 3, 1], [3, 3, 3]]));
    }

    #[test]
    fn the_newest_may_be_there_without_what_came_before() {
        let mut content = three_sectors();
        content.write(2, 0, &[2; SECTOR_BYTES]);
        content.write(3, SECTOR_BYTES, &[3; SECTOR_BYTES]);
        let found: BTreeSet<_> = (0..100)
            .map(|seed| cut(&content, Loss::Earlier, 0, seed))
            .map(|bytes| [bytes[0], bytes[SECTOR_BYTES]])
            .collect();
        assert_eq!(found, BTreeSet::from([[1, 1], [1, 3], [2, 3]]));
    }

    #[test]
    fn a_length_that_was_not_synced_may_be_lost() {
        let mut content = three_sectors();
        content.set_length(2, 10 * SECTOR_BYTES);
        let found: BTreeSet<_> = (0..50).map(|seed| cut(&content, Loss::Any, 2, seed).len()).collect();
        assert_eq!(found, BTreeSet::from([3 * SECTOR_BYTES, 10 * SECTOR_BYTES]));
    }

    #[test]
    fn after_a_failed_sync_readers_see_what_no_later_sync_saves() {
        let mut lost = 0;
        for seed in 0..20 {
            let mut content = three_sectors();
            content.write(2, 0, &[2; SECTOR_BYTES]);
            content.fail_sync(&mut Chance::new(seed));
            content.sync();
            assert_eq!(content.read(0, 1), [2]);
            lost += usize::from(cut(&content, Loss::All, 2, 0)[0] == 1);
            // A rewritten page goes to the disk as a whole.
            content.write(3, 4, &[3]);
            content.sync();
            assert_eq!(cut(&content, Loss::All, 3, 0)[..5], [2, 2, 2, 2, 3]);
        }
        assert!(lost > 5);
    }
}
