//! The payloads of entries that became ready by a later fact than the one that made them.
//!
//! An entry that was pending at a checkpoint has a row in a schedule run. Those rows are sorted by due time, and so are
//! the facts that make entries ready. All other entries were made a short time before they became ready: their facts are
//! found by an index of the segment, which is made when it is first needed. From then on, each batch that the reader
//! passes is added to the index of its segment, so that no batch is read a second time for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ready_facts::{NamedEntry, PayloadOf};
use super::segment_index::SegmentIndex;
use crate::error::{Error, Result};
use crate::message_log::ScannedBatch;
use crate::run::Run;
use crate::schedule_log::{Entry, RowLookups};
use crate::store::query::log_lookup::KeptLog;
use crate::store::recovery::rescue::{KeptFacts, entries_from_log};
use crate::units::{DueKey, Location, Sequence, SubjectNumber};

/// The indexes of a reader take so many bytes together, or only one of them has something. All that was published since
/// a checkpoint takes less, whatever is forgotten: the parts of segments that were used last are kept.
const INDEX_BYTES_MAX: usize = 8 << 20;

/// The payload of an entry: its sequence, its place, and the bytes of its body if they are known.
type Payload = (Sequence, Location, Option<u32>);

/// The rows and indexes that a reader has read to find payloads.
#[derive(Debug, Default)]
pub(super) struct PayloadPlaces {
    rows: RowLookups,
    /// Each is for a part of a segment, by its first sequence.
    indexes: BTreeMap<Sequence, SegmentIndex>,
    /// The bytes of all indexes.
    bytes: usize,
    /// How often an index was used.
    uses: u64,
}

impl PayloadPlaces {
    /// Begins to read with what is kept now.
    pub(super) fn begin(&mut self, log: &KeptLog) {
        self.indexes.retain(|_, index| index.is_current(log));
        self.bytes = self.indexes.values().map(SegmentIndex::bytes).fold(0, usize::saturating_add);
    }

    /// Passes a batch. If payloads were sought before, it is added to the index that goes on with it.
    pub(super) fn pass(&mut self, batch: &ScannedBatch, log: &KeptLog, subject: SubjectNumber) {
        let first = Sequence(batch.header.base_sequence.get());
        let Some((_, before)) = self.indexes.range(..=first).next_back() else { return };
        if !before.goes_on_with(batch) {
            let following = before.following(first).filter(|following| following.goes_on_with(batch));
            let segment = log.segments.iter().find(|start| Some(start.segment) == batch.start.segment());
            let new = || segment.map(|start| SegmentIndex::of(log, start)).filter(|index| index.goes_on_with(batch));
            let Some(index) = following.or_else(new) else { return };
            self.indexes.insert(first, index);
        }
        self.uses = self.uses.saturating_add(1);
        let Some((_, index)) = self.indexes.range_mut(..=first).next_back() else { return };
        let before = index.bytes();
        index.add(batch, subject);
        index.used = self.uses;
        let (after, first) = (index.bytes(), index.first());
        self.grown(before, after, first);
    }

    /// Finds the payloads of entries. An entry that cannot be found keeps its place, which is nowhere: it is voided when
    /// its payload is read.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn resolve(
        &mut self,
        unresolved: &[(usize, NamedEntry)],
        found: &mut [Entry],
        kept: &KeptFacts,
        subject: SubjectNumber,
    ) -> Result<()> {
        let mut left = Vec::new();
        for (place, named) in unresolved {
            match self.row_or_known_place(named, kept)? {
                Some(payload) => put(found, *place, payload),
                None => left.push((named, *place)),
            }
        }
        // One segment after the other.
        left.sort_unstable_by_key(|(named, _)| named.key.sequence);
        let mut missing: BTreeMap<Sequence, usize> = BTreeMap::new();
        for (named, place) in left {
            match self.place_in_log(named, kept, subject)? {
                Some(payload) => put(found, place, payload),
                None => drop(missing.insert(named.key.sequence, place)),
            }
        }
        search(&missing, found, kept)
    }

    /// Looks where nothing has to be read but blocks of runs.
    fn row_or_known_place(&mut self, named: &NamedEntry, kept: &KeptFacts) -> Result<Option<Payload>> {
        let key = match named.payload {
            PayloadOf::Entry => named.key,
            PayloadOf::Moved(target) => target,
            PayloadOf::Fact(location, size) => return Ok(Some((named.key.sequence, location, size))),
            PayloadOf::Message(_) => return Ok(None),
        };
        // A row comes first: the payload may have been copied since, and its segment removed.
        if let Some(row) = row_of(&kept.runs, &mut self.rows, key)? {
            return Ok(Some((row.payload_sequence(), row.location(), row.size())));
        }
        let index = self.indexes.range(..=key.sequence).next_back();
        Ok(match index.and_then(|(_, index)| index.payload_of(key.sequence)) {
            Some(PayloadOf::Fact(location, size)) => Some((key.sequence, location, size)),
            _ => None,
        })
    }

    /// Follows the facts of an entry through the log, by the indexes of their segments.
    fn place_in_log(
        &mut self,
        named: &NamedEntry,
        kept: &KeptFacts,
        subject: SubjectNumber,
    ) -> Result<Option<Payload>> {
        let mut payload = named.payload;
        let mut sequence = named.key.sequence;
        loop {
            let next = match payload {
                PayloadOf::Fact(location, size) => return Ok(Some((sequence, location, size))),
                PayloadOf::Entry => sequence,
                PayloadOf::Moved(target) => {
                    if let Some(row) = row_of(&kept.runs, &mut self.rows, target)? {
                        return Ok(Some((row.payload_sequence(), row.location(), row.size())));
                    }
                    target.sequence
                }
                PayloadOf::Message(payload) => payload,
            };
            // A fact points to an earlier one, so this ends.
            if next > sequence || (next == sequence && payload != PayloadOf::Entry) {
                return Ok(None);
            }
            sequence = next;
            let Some(index) = self.index_of(sequence, &kept.log, subject)? else { return Ok(None) };
            let Some(found) = index.payload_of(sequence) else { return Ok(None) };
            payload = found;
        }
    }

    /// The index that reaches a sequence. `None` if its segment is not kept.
    fn index_of(&mut self, sequence: Sequence, log: &KeptLog, subject: SubjectNumber) -> Result<Option<&SegmentIndex>> {
        let behind = log.segments.partition_point(|start| start.position.next_sequence <= sequence);
        let Some(start) = behind.checked_sub(1).and_then(|place| log.segments.get(place)) else { return Ok(None) };
        let end = log.segments.get(behind).map_or(log.end, |next| next.position.end);
        self.uses = self.uses.saturating_add(1);
        let of_segment = self.indexes.range(start.position.next_sequence..=sequence).next_back();
        let mut first = of_segment.map_or(start.position.next_sequence, |(first, _)| *first);
        loop {
            let index = self.indexes.entry(first).or_insert_with(|| SegmentIndex::of(log, start));
            let before = index.bytes();
            index.read_to(log, (sequence, end), subject)?;
            index.used = self.uses;
            let (after, following) = (index.bytes(), index.following(sequence));
            self.grown(before, after, first);
            let Some(following) = following else { break };
            first = following.first();
            self.indexes.entry(first).or_insert(following);
        }
        Ok(self.indexes.get(&first))
    }

    /// An index took so many bytes before and afterwards. Those that were not used for long forget what they have.
    fn grown(&mut self, before: usize, after: usize, kept: Sequence) {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        while after > before && self.bytes > INDEX_BYTES_MAX {
            let others = self.indexes.values_mut().filter(|index| index.first() != kept && index.bytes() > 0);
            let Some(oldest) = others.min_by_key(|index| index.used) else { return };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            oldest.forget();
        }
    }
}

fn put(found: &mut [Entry], place: usize, (sequence, location, size): Payload) {
    if let Some(entry) = found.get_mut(place) {
        *entry = Entry::new(entry.key(), entry.attempt(), sequence, location, entry.subject()).with_size(size);
    }
}

/// Searches everything that is kept, which is slow: facts whose rows and segments are damaged, or gone.
fn search(missing: &BTreeMap<Sequence, usize>, found: &mut [Entry], kept: &KeptFacts) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<Sequence> = missing.keys().copied().collect();
    let in_log = match entries_from_log(kept, &wanted) {
        Err(error @ Error::Storage { .. }) => return Err(error),
        // The log is damaged as well.
        Err(_) => Vec::new(),
        Ok(entries) => entries,
    };
    for made in in_log {
        if let Some(place) = missing.get(&made.sequence()) {
            put(found, *place, (made.payload_sequence(), made.location(), made.size()));
        }
    }
    Ok(())
}

/// The row with this key in any of these runs. A block that cannot be read has none.
fn row_of(runs: &[Arc<Run>], lookups: &mut RowLookups, key: DueKey) -> Result<Option<Entry>> {
    let covers = |run: &&Arc<Run>| run.first_sequence() <= key.sequence && key.sequence <= run.last_sequence();
    for run in runs.iter().filter(covers) {
        match lookups.find_unpatched(run, key) {
            Ok(Some(entry)) => return Ok(Some(entry)),
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}
