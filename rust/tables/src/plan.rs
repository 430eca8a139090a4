//! Which ranges a table is read in.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{LogPiece, segment_path};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Millis, Sequence};

use crate::cut::{Measured, cut};
use crate::filter::{Filter, Names};
use crate::pending::PendingPart;
use crate::range::{Range, Table};
use crate::snapshot::TableSnapshot;
use crate::stretches::{DuePart, parts_of};

/// A piece with so few facts is looked through, so that its bytes are known: its file may be long and mostly empty.
const FEW_FACTS: u64 = 1_024;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only these subjects; `None` for all. One that is not there has no rows.
    pub subjects: Option<Vec<String>>,
    /// Which rows.
    pub filter: Filter,
    /// About so many bytes of files are in one range, and never less than one batch of the log, or some hundred rows of what is pending.
    pub split_bytes: u64,
}

/// The ranges that have all rows that are asked for, each row in one of them, in the order of the table.
///
/// # Errors
/// `InvalidArgument` where bounds are upside down or `split_bytes` is zero; `Storage`; of what is pending also `Corrupt`,
/// `MissingFile`, `NewerFormat`.
pub fn plan(snapshot: &TableSnapshot, storage: &Arc<dyn Storage>, table: Table, asked: &Asked) -> Result<Vec<Range>> {
    check(asked)?;
    let names = names_of(snapshot, asked);
    let mut filter = asked.filter.clone();
    filter.only_named = asked.subjects.is_some();
    if filter.only_named && names.is_empty() {
        return Ok(Vec::new());
    }
    if table == Table::Pending {
        let parts = parts_of(&snapshot.sources(storage)?, &filter, asked.split_bytes);
        return Ok(parts.into_iter().map(|due| pending(snapshot, &filter, &names, due)).collect());
    }
    let mut measured: Vec<Measured> = Vec::new();
    for piece in snapshot.pieces.iter().filter(|piece| may_have(piece, &filter)) {
        let parts = measure(storage.as_ref(), piece, asked.split_bytes)?;
        measured.extend(parts.into_iter().filter(|(part, _)| may_have(part, &filter)));
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (piece, bytes) in measured {
        match ranges.last_mut() {
            Some(range) if range.bytes.saturating_add(bytes) <= asked.split_bytes => {
                range.bytes = range.bytes.saturating_add(bytes);
                range.end_sequence = piece.end;
                range.pieces.push(piece);
            }
            _ => ranges.push(Range {
                table,
                stream: snapshot.stream,
                bytes,
                first_sequence: piece.first,
                end_sequence: piece.end,
                pieces: vec![piece],
                pending: None,
                filter: filter.clone(),
                names: Arc::clone(&names),
            }),
        }
    }
    Ok(ranges)
}

/// A part of what is pending.
fn pending(snapshot: &TableSnapshot, filter: &Filter, names: &Arc<Names>, due: DuePart) -> Range {
    let due = DuePart { rows: due.rows.min(snapshot.pending), ..due };
    Range {
        table: Table::Pending,
        stream: snapshot.stream,
        bytes: due.bytes,
        first_sequence: Sequence(0),
        end_sequence: snapshot.end_sequence,
        pieces: Vec::new(),
        pending: Some(PendingPart { replay: snapshot.replay, due }),
        filter: filter.clone(),
        names: Arc::clone(names),
    }
}

fn may_have(piece: &LogPiece, filter: &Filter) -> bool {
    filter.may_take((piece.first, piece.end), (piece.trusted_from, piece.trusted_to))
}

fn measure(storage: &dyn Storage, piece: &LogPiece, split_bytes: u64) -> Result<Vec<Measured>> {
    let length = match piece.to {
        Some(to) => u64::from(to),
        None => match storage.open(&segment_path(piece.segment)).and_then(|file| file.length()) {
            Err(error) if error.is_not_found() => 0,
            other => other?,
        },
    };
    let bytes = length.saturating_sub(u64::from(piece.from));
    if bytes <= split_bytes && (piece.to.is_some() || piece.end.since(piece.first) > FEW_FACTS) {
        return Ok(vec![(*piece, bytes)]);
    }
    cut(storage, piece, split_bytes)
}

fn names_of(snapshot: &TableSnapshot, asked: &Asked) -> Arc<Names> {
    let Some(subjects) = &asked.subjects else { return Arc::clone(&snapshot.names) };
    let named = snapshot.names.iter().filter(|(_, name)| subjects.contains(*name));
    Arc::new(named.map(|(number, name)| (*number, name.clone())).collect())
}

fn check(asked: &Asked) -> Result<()> {
    let filter = &asked.filter;
    let times = |time: Option<Millis>| time.map(|time| time.0);
    let sequences = |sequence: Option<Sequence>| sequence.map(|sequence| sequence.0);
    let bounds = [
        ("end_sequence", sequences(filter.first_sequence), sequences(filter.end_sequence)),
        ("published_before", times(filter.published_from), times(filter.published_before)),
        ("due_before", times(filter.due_from), times(filter.due_before)),
    ];
    for (argument, from, before) in bounds {
        if let (Some(from), Some(before)) = (from, before)
            && from > before
        {
            let expected = format!("not below where it begins, which is {from}");
            return Err(Error::InvalidArgument { argument, expected, found: before.to_string() });
        }
    }
    if asked.split_bytes == 0 {
        let (expected, found) = ("1 or more".to_owned(), "0".to_owned());
        return Err(Error::InvalidArgument { argument: "split_bytes", expected, found });
    }
    Ok(())
}
