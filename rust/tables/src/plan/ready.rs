//! The ranges of ready messages and of deliveries. The whole log is read once for them, since a ready number is one
//! more than that of the message before.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::LogPiece;
use delaymq_core::storage::Storage;
use delaymq_core::store::Owner;
use delaymq_core::units::Sequence;

use crate::plan::log_ranges::{length_of, log_ranges};
use crate::plan::range::{Part, Range};
use crate::plan::range_parts::{DeliveriesPart, ReadyPart};
use crate::read::ready_numbers::{Counts, OLDER_STEP, note_older};
use crate::read::state_rows::{each_older_ready, each_pending_below};
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::filter::Filter;
use crate::schema::table::Table;
use crate::snapshot::table_snapshot::TableSnapshot;

/// A range of deliveries has one sequence for so many bytes of a split: its reader keeps about twice as many for each
/// message and group, in addition to what every reader keeps.
const SEQUENCE_BYTES: u64 = 128;
/// It has so many sequences.
const SEQUENCES_MIN: u64 = 64;
const SEQUENCES_MAX: u64 = 1 << 20;

/// What became ready, cut by the facts that made it so. All of the log is read once for it, since a number is one
/// more than that of the message before it.
pub(crate) fn ready(
    snapshot: &TableSnapshot,
    storage: &Arc<dyn Storage>,
    range: &Range,
    split_bytes: u64,
) -> Result<Vec<Range>> {
    // Whatever of an entry is asked for: the fact that makes it ready may lie anywhere behind it.
    let by_facts = Range { filter: Filter::default(), ..range.clone() };
    let mut ranges = log_ranges(snapshot, storage, &by_facts, split_bytes)?;
    if ranges.is_empty() {
        ranges.push(by_facts);
    }
    let pieces: Vec<LogPiece> = ranges.iter().flat_map(|range| range.pieces.iter().copied()).collect();
    let owner = snapshot.state(storage)?;
    let counts = Counts::counted(storage, snapshot.stream, &pieces, owner.state(), snapshot.first_sequence)?;
    let (mut planned, mut place) = (Vec::new(), 0_usize);
    for mut one in ranges {
        let its = place..place.saturating_add(one.pieces.len());
        let before = pieces.get(..place).unwrap_or_default().to_vec();
        place = its.end;
        let has_older = before.is_empty() && snapshot.unfinished > 0 && !range.filter.is_by_published();
        let mut rows = counts.rows_max(its.clone(), one.end_sequence);
        if !may_have_ready(&one, &range.filter) {
            (one.pieces, one.bytes, rows) = (Vec::new(), 0, 0);
            if !has_older {
                continue;
            }
        }
        let part = Part::Ready(ReadyPart {
            replay: snapshot.replay,
            before,
            has_older,
            rows: rows.saturating_add(if has_older { snapshot.unfinished } else { 0 }),
            numbering: counts.numbering(its),
            refused: counts.refused_in(one.first_sequence, one.end_sequence),
        });
        planned.push(Range { part, filter: range.filter.clone(), ..one });
    }
    Ok(planned)
}

/// Whether facts of a range may make something ready that is asked for: what they make ready came before them.
fn may_have_ready(range: &Range, filter: &Filter) -> bool {
    let (Some(first), Some(last)) = (range.pieces.first(), range.pieces.last()) else { return false };
    let times = (first.trusted_from, last.trusted_to);
    filter.first_sequence.is_none_or(|first| first < range.end_sequence)
        && filter.may_take((Sequence(0), Sequence(u64::MAX)), times)
}

/// Deliveries, cut by sequences. First come those that are older than the log.
pub(crate) fn deliveries(
    snapshot: &TableSnapshot,
    storage: &Arc<dyn Storage>,
    range: &Range,
    split_bytes: u64,
) -> Result<Vec<Range>> {
    let (owner, pieces, log_first) = (snapshot.state(storage)?, &snapshot.pieces, snapshot.first_sequence);
    let counts = Counts::counted(storage, snapshot.stream, pieces, owner.state(), log_first)?;
    let lengths: Vec<u64> = pieces.iter().map(|piece| length_of(storage.as_ref(), piece)).collect::<Result<_>>()?;
    let step = (split_bytes / SEQUENCE_BYTES).clamp(SEQUENCES_MIN, SEQUENCES_MAX);
    let mut spans = older_spans(&owner, &counts, log_first, step)?;
    let mut first = log_first;
    while first < snapshot.end_sequence {
        let end = first.plus(step).min(snapshot.end_sequence);
        spans.push((first, end));
        first = end;
    }
    let groups = (range.parties.groups.len() as u64).max(1);
    let mut planned = Vec::new();
    for (first, end) in spans.into_iter().filter(|span| may_have_published(pieces, *span, &range.filter)) {
        let from = pieces.partition_point(|piece| piece.end <= first);
        let last = pieces.last().map_or(first, |piece| piece.end);
        let part = DeliveriesPart {
            replay: snapshot.replay,
            log_first,
            rows: end.since(first).saturating_mul(groups),
            numbering: counts.numbering(from..pieces.len()),
            refused: counts.refused_in(pieces.get(from).map_or(first, |piece| piece.first), last),
        };
        planned.push(Range {
            bytes: lengths.iter().skip(from).fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            first_sequence: first,
            end_sequence: end,
            pieces: pieces.get(from..).unwrap_or_default().to_vec(),
            part: Part::Deliveries(part),
            ..range.clone()
        });
    }
    Ok(planned)
}

/// Whether messages of some sequences may be asked for, by their sequences and the times of their segments.
fn may_have_published(pieces: &[LogPiece], (first, end): (Sequence, Sequence), filter: &Filter) -> bool {
    let its = || pieces.iter().filter(|piece| piece.first < end && piece.end > first);
    let times = its().map(|piece| piece.trusted_from).min().zip(its().map(|piece| piece.trusted_to).max());
    match times {
        Some(times) => filter.may_take((first, end), times),
        // It is not known when messages that are older than the log were published.
        None => filter.may_take((first, end), Default::default()) && !filter.is_by_published(),
    }
}

/// The sequences of before the log that something is known of, in spans of about so many.
fn older_spans(owner: &Owner, counts: &Counts, log_first: Sequence, step: u64) -> Result<Vec<(Sequence, Sequence)>> {
    let mut older: BTreeMap<Sequence, u64> = counts.older.clone();
    // The reader of the range reports damage.
    let mut sink = Gathered::new(Table::Deliveries, &Choice::all(Table::Deliveries));
    each_pending_below(owner, log_first, &mut sink, &mut |entry| note_older(&mut older, entry.sequence()));
    each_older_ready(owner, &counts.numbering(0..usize::MAX), &mut sink, &mut |_, _, entry| {
        note_older(&mut older, entry.payload_sequence());
    })?;
    let mut spans: Vec<(Sequence, Sequence)> = Vec::new();
    let mut named = 0_u64;
    for (first, count) in older {
        let end = first.plus(OLDER_STEP).min(log_first);
        match spans.last_mut() {
            Some(span) if named.saturating_add(count) <= step => span.1 = end,
            _ => {
                spans.push((first, end));
                named = 0;
            }
        }
        named = named.saturating_add(count);
    }
    Ok(spans)
}
