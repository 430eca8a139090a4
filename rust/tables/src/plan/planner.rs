//! The planner: the ranges in which a table is read.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_core::units::{Millis, Sequence, Utc};

use crate::plan::due_stretches::{DuePart, parts_of};
use crate::plan::log_ranges::log_ranges;
use crate::plan::range::{Part, Range};
use crate::plan::range_parts::{KnownLoad, PendingPart};
use crate::plan::ready::{deliveries, ready};
use crate::refused;
use crate::schema::filter::{Filter, Names};
use crate::schema::table::Table;
use crate::snapshot::parties::Parties;
use crate::snapshot::table_snapshot::TableSnapshot;

/// The rows that a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only these subjects; `None` for all. One that is not there has no rows.
    pub subjects: Option<Vec<String>>,
    /// Which rows.
    pub filter: Filter,
    /// About so many bytes of files make one range, but at least one batch of the log, or some hundred pending rows.
    /// The table of files is one range.
    pub split_bytes: u64,
}

/// The ranges that have all rows of the request, each row in one of them, in the order of the table.
///
/// # Errors
/// `InvalidArgument` if bounds are upside down or `split_bytes` is zero, or if some rows of the table of files are
/// asked for; `Storage`; for pending and ready messages also `Corrupt`, `MissingFile`, `NewerFormat`.
pub fn plan(snapshot: &TableSnapshot, storage: &Arc<dyn Storage>, table: Table, asked: &Asked) -> Result<Vec<Range>> {
    check(asked)?;
    let names = names_of(snapshot, asked);
    let mut filter = asked.filter.clone();
    filter.only_named = asked.subjects.is_some();
    if table == Table::Segments {
        check_all_is_asked(&filter)?;
    } else if filter.only_named && names.is_empty() {
        return Ok(Vec::new());
    }
    let range = Range {
        table,
        stream: snapshot.stream,
        bytes: 0,
        first_sequence: snapshot.first_sequence,
        end_sequence: snapshot.end_sequence,
        pieces: Vec::new(),
        loads: Vec::new(),
        part: Part::Log,
        filter,
        names,
        parties: Arc::default(),
    };
    match table {
        Table::Message => {
            let mut ranges = log_ranges(snapshot, storage, &range, asked.split_bytes)?;
            for range in &mut ranges {
                add_loads(snapshot, range);
            }
            Ok(ranges)
        }
        Table::Action => {
            let parties = Arc::new(parties_of(snapshot, &range));
            log_ranges(snapshot, storage, &Range { parties, ..range }, asked.split_bytes)
        }
        Table::Pending => pending(snapshot, storage, &range, asked.split_bytes),
        Table::Ready => ready(snapshot, storage, &range, asked.split_bytes),
        Table::Deliveries => {
            let parties = Arc::new(groups_of(snapshot));
            deliveries(snapshot, storage, &Range { parties, ..range }, asked.split_bytes)
        }
        Table::Segments => {
            let part = Part::Files(snapshot.files.to_vec());
            Ok(vec![Range { part, names: Arc::default(), ..range }])
        }
    }
}

/// Adds the runs that facts of the range have loaded.
fn add_loads(snapshot: &TableSnapshot, range: &mut Range) {
    let pieces = &range.pieces;
    let has = |load: &&KnownLoad| pieces.iter().any(|piece| (piece.first..piece.end).contains(&load.base));
    range.loads = snapshot.loads.iter().filter(has).copied().collect();
    range.bytes = range.loads.iter().map(KnownLoad::bytes).fold(range.bytes, u64::saturating_add);
}

/// Pending messages, cut by their due stretches.
fn pending(
    snapshot: &TableSnapshot,
    storage: &Arc<dyn Storage>,
    range: &Range,
    split_bytes: u64,
) -> Result<Vec<Range>> {
    let of = |due: DuePart| Range {
        bytes: due.bytes,
        first_sequence: Sequence(0),
        loads: snapshot.loads.iter().filter(|load| due.runs.contains(&load.number)).copied().collect(),
        part: Part::Pending(PendingPart {
            replay: snapshot.replay,
            due: DuePart { rows: due.rows.min(snapshot.pending), ..due },
        }),
        ..range.clone()
    };
    Ok(parts_of(&snapshot.sources(storage)?, &range.filter, split_bytes).into_iter().map(of).collect())
}

fn names_of(snapshot: &TableSnapshot, asked: &Asked) -> Arc<Names> {
    let Some(subjects) = &asked.subjects else { return Arc::clone(&snapshot.names) };
    let named = snapshot.names.iter().filter(|(_, name)| subjects.contains(*name));
    Arc::new(named.map(|(number, name)| (*number, name.clone())).collect())
}

/// The parties of a request: every subject, since messages move to others, and the groups of the subjects in the
/// request.
fn parties_of(snapshot: &TableSnapshot, range: &Range) -> Parties {
    let known = &snapshot.parties;
    let is_asked = |number| !range.filter.only_named || range.names.contains_key(number);
    let others = snapshot.names.iter().filter(|(number, _)| !range.names.contains_key(number));
    let groups = known.groups.iter().filter(|(_, (subject, _))| is_asked(subject));
    Parties {
        subjects: others.map(|(number, name)| (*number, name.clone())).collect(),
        groups: groups.map(|(number, group)| (*number, group.clone())).collect(),
        consumers: known.consumers.clone(),
    }
}

/// Every group: a retry goes on in another subject.
fn groups_of(snapshot: &TableSnapshot) -> Parties {
    Parties { groups: snapshot.parties.groups.clone(), ..Parties::default() }
}

fn check(asked: &Asked) -> Result<()> {
    let filter = &asked.filter;
    upright("end_sequence", filter.first_sequence, filter.end_sequence, &|sequence| sequence.to_string())?;
    let in_utc = |time: Millis| Utc(time).to_string();
    upright("published_before", filter.published_from, filter.published_before, &in_utc)?;
    upright("due_before", filter.due_from, filter.due_before, &in_utc)?;
    if asked.split_bytes == 0 {
        return Err(refused("split_bytes", "1 or more", "0"));
    }
    Ok(())
}

/// Fails with `InvalidArgument` if a range ends before it begins.
fn upright<T: PartialOrd + Copy>(
    argument: &'static str,
    from: Option<T>,
    before: Option<T>,
    words: &dyn Fn(T) -> String,
) -> Result<()> {
    match (from, before) {
        (Some(from), Some(before)) if from > before => {
            let expected = format!("not below where it begins, which is {}", words(from));
            Err(refused(argument, &expected, &words(before)))
        }
        _ => Ok(()),
    }
}

/// Files are not messages: a filter of messages has no meaning for them.
fn check_all_is_asked(filter: &Filter) -> Result<()> {
    let asked = [
        ("subjects", filter.only_named),
        ("first_sequence", filter.first_sequence.is_some()),
        ("end_sequence", filter.end_sequence.is_some()),
        ("published_from", filter.published_from.is_some()),
        ("published_before", filter.published_before.is_some()),
        ("due_from", filter.due_from.is_some()),
        ("due_before", filter.due_before.is_some()),
    ];
    match asked.into_iter().find(|(_, is_asked)| *is_asked) {
        None => Ok(()),
        Some((argument, _)) => Err(refused(argument, "nothing: all files are rows of segments", "a choice")),
    }
}
