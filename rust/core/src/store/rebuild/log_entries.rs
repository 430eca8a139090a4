//! Reads the rows of a piece from the log. Only segments with a wanted fact are read, from the newest to the oldest,
//! since a fact points only to earlier ones, by a payload or by the entry that it moved. The readable records of a
//! damaged batch are trusted under the same rules as in salvage.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::basis::{Basis, SegmentFacts};
use crate::error::{Error, Result};
use crate::message_log::{Find, sift_segment};
use crate::record::retry::Retry;
use crate::record::{Fact, RawRecord, decode};
use crate::run::ScheduleRow;
use crate::schedule_log::{DUE_MAX, Entry, EntryState, TwoBits, entry_of};
use crate::store::salvage::payloads::each_record;
use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// A pending entry as the log has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRow {
    /// The location is `NOWHERE` if the log no longer has the payload.
    pub(super) entry: Entry,
    /// False if the log no longer has the moved entry: then only the key is known.
    pub(super) is_rooted: bool,
}

/// The rows of a piece that the log has.
#[derive(Debug, Default)]
pub(super) struct FromLog {
    /// The rows, by sequence.
    pub(super) rows: Vec<LogRow>,
    /// The first damage found in the log.
    pub(super) damage: Option<Error>,
}

impl FromLog {
    /// The row of this sequence.
    pub(super) fn get(&self, sequence: Sequence) -> Option<&LogRow> {
        let at = self.rows.binary_search_by_key(&sequence, |row| row.entry.sequence()).ok()?;
        self.rows.get(at)
    }
}

/// An entry as made by its own fact.
#[derive(Clone, Copy, Debug)]
struct Made {
    entry: Entry,
    of: Of,
}

/// The origin of the payload of an entry.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// The payload is in the same record.
    Here,
    /// The payload is that of an earlier message.
    Payload(Sequence),
    /// The payload is that of the earlier entry which was moved.
    Moved(Sequence),
}

/// Reads the pending entries in `bits` from the log, as far as the log has them.
///
/// # Errors
/// `NewerFormat`, `Storage`.
pub(super) fn rows_from_log(basis: &Basis, bits: &TwoBits) -> Result<FromLog> {
    let mut search = Search {
        basis,
        bits,
        made: Vec::new(),
        beside: BTreeSet::new(),
        others: BTreeMap::new(),
        movers: Vec::new(),
        loaded: BTreeMap::new(),
        damage: None,
    };
    for segment in basis.segments() {
        search.segment(&segment)?;
    }
    search.finish()
}

struct Search<'a> {
    basis: &'a Basis,
    bits: &'a TwoBits,
    /// Entries of pending sequences of the piece.
    made: Vec<Made>,
    /// The sequences that these entries point to.
    beside: BTreeSet<Sequence>,
    /// The entries that the facts of `beside` make; none is a move.
    others: BTreeMap<Sequence, Made>,
    /// The indexes in `made` of entries that moves made.
    movers: Vec<usize>,
    /// The rows of loaded runs for the sequences in `beside`.
    loaded: BTreeMap<Sequence, ScheduleRow>,
    damage: Option<Error>,
}

/// The moves of a segment, whether or not they took effect: the sequence of each and the sequence that it moves.
type Links = Vec<(Sequence, Sequence)>;

/// Returns the start of a chain of moves, as far as these links show it.
fn root_of(links: &Links, sequence: Sequence) -> Sequence {
    let mut root = sequence;
    // A move names an earlier sequence, so this loop ends.
    while let Ok(at) = links.binary_search_by_key(&root, |(from, _)| *from)
        && let Some((_, target)) = links.get(at).filter(|(_, target)| *target < root)
    {
        root = *target;
    }
    root
}

impl Search<'_> {
    fn segment(&mut self, segment: &SegmentFacts) -> Result<()> {
        let here = &segment.sequences;
        let is_asked = self.has_pending(here);
        let mut looked: BTreeSet<Sequence> = BTreeSet::new();
        let mut is_first = is_asked;
        // A moved entry may be a retry whose message is in the same segment, so the segment may be read more than once.
        loop {
            let wanted: BTreeSet<Sequence> =
                self.beside.range(here.clone()).filter(|sequence| !looked.contains(sequence)).copied().collect();
            if !is_first && wanted.is_empty() {
                return Ok(());
            }
            let links = self.read(segment, is_first, &wanted)?;
            looked.extend(wanted);
            self.follow(here, &links);
            is_first = false;
        }
    }

    fn has_pending(&self, here: &Range<Sequence>) -> bool {
        let from = here.start.max(self.bits.first());
        let to = here.end.min(self.bits.end());
        from < to && self.pending_from(from).is_some_and(|first| first < to)
    }

    /// The first pending sequence of the piece from this one on.
    fn pending_from(&self, from: Sequence) -> Option<Sequence> {
        self.bits.pending().find(|sequence| *sequence >= from)
    }

    /// Reads the segment once: for the pending sequences of the piece if `is_asked`, and for `wanted`.
    fn read(&mut self, segment: &SegmentFacts, is_asked: bool, wanted: &BTreeSet<Sequence>) -> Result<Links> {
        let mut links = Links::new();
        let place = (segment.number, segment.sequences.start, segment.to);
        let (storage, holes) = (&self.basis.storage, &self.basis.read.files.holes);
        let (bits, made, others, movers) = (self.bits, &mut self.made, &mut self.others, &mut self.movers);
        let (beside, damage) = (&mut self.beside, &mut self.damage);
        sift_segment(storage, self.basis.stream, place, holes, &mut |find| {
            if let Find::Damage(error) = &find {
                damage.get_or_insert_with(|| error.clone());
            }
            each_record(&find, &mut |record, location| {
                if !segment.sequences.contains(&record.sequence) {
                    return;
                }
                let is_pending = is_asked && bits.get(record.sequence) == EntryState::Pending;
                let Some(one) = made_by(record, location) else { return };
                if let Of::Moved(target) = one.of {
                    links.push((record.sequence, target));
                }
                if is_pending {
                    match one.of {
                        Of::Here => {}
                        Of::Payload(payload) => drop(beside.insert(payload)),
                        Of::Moved(_) => movers.push(made.len()),
                    }
                    made.push(one);
                }
                if wanted.contains(&record.sequence) && !matches!(one.of, Of::Moved(_)) {
                    if let Of::Payload(payload) = one.of {
                        beside.insert(payload);
                    }
                    others.insert(record.sequence, one);
                }
            });
        })?;
        links.sort_unstable();
        links.dedup_by_key(|(from, _)| *from);
        Ok(links)
    }

    /// Follows each move of an entry in this segment back to the start of its chain of moves.
    fn follow(&mut self, here: &Range<Sequence>, links: &Links) {
        for place in &self.movers {
            let Some(made) = self.made.get_mut(*place) else { continue };
            let Of::Moved(target) = made.of else { continue };
            if here.contains(&target) {
                made.of = Of::Moved(root_of(links, target));
            }
            if let Of::Moved(root) = made.of {
                self.beside.insert(root);
            }
        }
    }

    fn finish(mut self) -> Result<FromLog> {
        let beside: Vec<Sequence> = self.beside.iter().copied().collect();
        let loaded = &mut self.loaded;
        self.basis.loaded_rows(beside.into_iter(), &mut |row| {
            loaded.insert(row.key.sequence, *row);
        })?;
        let mut rows: Vec<LogRow> = self.made.iter().map(|made| self.resolved(made)).collect();
        let first = self.bits.pending();
        let of_loads = first.filter(|sequence| self.basis.loaded_at(*sequence).is_some());
        self.basis.loaded_rows(of_loads, &mut |row| {
            rows.push(LogRow { entry: entry_of(row), is_rooted: true });
        })?;
        rows.sort_by_key(|row| row.entry.sequence());
        rows.dedup_by_key(|row| row.entry.sequence());
        Ok(FromLog { rows, damage: self.damage })
    }

    fn resolved(&self, made: &Made) -> LogRow {
        let rooted = |entry| LogRow { entry, is_rooted: true };
        match made.of {
            Of::Here => rooted(made.entry),
            Of::Payload(payload) => rooted(self.with_payload(made.entry, payload)),
            Of::Moved(root) => match self.entry_at(root) {
                Some(origin) => rooted(made.entry.with_payload_of(Some(origin))),
                None => LogRow { entry: made.entry, is_rooted: false },
            },
        }
    }

    /// The entry of a sequence that another entry points to.
    fn entry_at(&self, sequence: Sequence) -> Option<Entry> {
        match self.others.get(&sequence) {
            Some(Made { entry, of: Of::Payload(payload) }) => Some(self.with_payload(*entry, *payload)),
            Some(Made { entry, .. }) => Some(*entry),
            None => self.loaded.get(&sequence).map(entry_of),
        }
    }

    fn with_payload(&self, entry: Entry, payload: Sequence) -> Entry {
        let message = match self.others.get(&payload) {
            Some(Made { entry, of: Of::Here }) => Some(*entry),
            _ => self.loaded.get(&payload).map(entry_of),
        };
        match message {
            Some(message) => entry.with_location(message.location()).with_size(message.size()),
            None => entry,
        }
    }
}

/// Returns the entry that a record makes if the record is applied and takes effect.
fn made_by(record: &RawRecord<'_>, location: Location) -> Option<Made> {
    let fact = decode(record)?;
    let entry = |due: Millis, attempt, payload, location, subject: SubjectNumber| {
        let key = DueKey { due: due.min(DUE_MAX), sequence: record.sequence };
        Entry::new(key, attempt, payload, location, subject)
    };
    if let Fact::Message(message) = fact {
        let size = u32::try_from(message.body.len()).ok();
        let entry = entry(message.due, 1, record.sequence, location, message.subject).with_size(size);
        return Some(Made { entry, of: Of::Here });
    }
    if !record.payload_is_whole() {
        return None;
    }
    match fact {
        Fact::Retry(Retry { due, attempt, target, payload_sequence, .. }) => {
            let attempt = u16::try_from(attempt).unwrap_or(u16::MAX);
            let entry = entry(due, attempt, payload_sequence, Location::NOWHERE, target);
            Some(Made { entry, of: Of::Payload(payload_sequence) })
        }
        Fact::Redrive(redrive) => {
            let payload = redrive.payload_sequence;
            let entry = entry(redrive.due, 1, payload, Location::NOWHERE, redrive.target);
            Some(Made { entry, of: Of::Payload(payload) })
        }
        fact => {
            let moved = fact.as_move()?;
            let entry = entry(moved.due, 1, moved.target.sequence, Location::NOWHERE, moved.subject);
            Some(Made { entry, of: Of::Moved(moved.target.sequence) })
        }
    }
}
