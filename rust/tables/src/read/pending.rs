//! The table `pending`: messages that are neither dispatched nor cancelled, in the order of due times.

use std::collections::BTreeSet;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::segment_path;
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::{Message, decode_message};
use delaymq_core::run::{Run, read_payload, run_path};
use delaymq_core::schedule_log::{Entry, HiddenBlock};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::store::{Owner, PendingCursor, PendingLook, PendingOf, PendingQuery, PendingScan, State, state_at};
use delaymq_core::units::{Epoch, Location, LocationFile, RunNumber, Sequence};

use crate::plan::range::Range;
use crate::plan::range_parts::{PendingPart, Replay};
use crate::rows::content::Content;
use crate::rows::message_row::MessageRow;
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::column::Column;

/// Entries that one look at the schedule returns.
const PIECE_ENTRIES: usize = 10_000;

/// One reading of parts of a schedule, which is made again once.
pub(crate) struct PendingReader {
    replay: Replay,
    owner: Owner,
    scan: PendingScan,
    payloads: Payloads,
    /// Damaged blocks that were named: one may reach over several parts.
    named: BTreeSet<(RunNumber, u32)>,
}

impl PendingReader {
    pub(crate) fn open(storage: &Arc<dyn Storage>, range: &Range, part: &PendingPart) -> Result<Self> {
        let owner = state_at(storage, range.stream, part.replay.checkpoint, part.replay.end)?;
        let payloads = Payloads { storage: Arc::clone(storage), open: None, bytes: Vec::new() };
        Ok(Self { replay: part.replay, owner, scan: scan_of(range, part)?, payloads, named: BTreeSet::new() })
    }

    /// Goes on with another part: false if that is one of another schedule.
    pub(crate) fn turns_to(&mut self, range: &Range, part: &PendingPart) -> Result<bool> {
        self.scan = scan_of(range, part)?;
        Ok(self.replay == part.replay)
    }

    /// Shows some more of it; false at the end.
    pub(crate) fn read_next(&mut self, range: &Range, choice: &Choice, sink: &mut Gathered) -> Result<bool> {
        let view = match self.owner.look_at_pending(&mut self.scan) {
            PendingLook::Again => return Ok(true),
            PendingLook::End => return Ok(false),
            PendingLook::View(view) => view,
        };
        let piece = self.scan.read(view, PIECE_ENTRIES)?;
        for HiddenBlock { block, .. } in piece.hidden {
            if self.named.insert((block.run, block.block)) {
                sink.damage(block.error);
            }
        }
        for entry in &piece.entries {
            if let Err(error) = show(self.owner.state(), &mut self.payloads, entry, (range, choice), sink) {
                if matches!(error, Error::Storage { .. }) {
                    return Err(error);
                }
                sink.damage(error);
            }
        }
        Ok(true)
    }
}

fn scan_of(range: &Range, part: &PendingPart) -> Result<PendingScan> {
    // What groups gave back waits in subjects of theirs, and is pending as all else.
    let of = PendingOf::Prefix(String::new());
    let after = Some(PendingCursor { stream: range.stream.id, key: part.due.after });
    let (due_from, due_before) = (range.filter.due_from, range.filter.due_before);
    let scan = PendingScan::new(range.stream.id, &PendingQuery { of, due_from, due_before, after })?;
    Ok(scan.up_to(part.due.to))
}

fn show(
    state: &State,
    payloads: &mut Payloads,
    entry: &Entry,
    (range, choice): (&Range, &Choice),
    sink: &mut Gathered,
) -> Result<()> {
    let (filter, key, location) = (&range.filter, entry.key(), entry.location());
    let subject = range.names.get(&entry.subject()).map(String::as_str);
    if !filter.takes(key.sequence, key.due) || (subject.is_none() && filter.only_named) {
        return Ok(());
    }
    let loaded = loaded_in(state, location);
    let file = path_of(location, loaded);
    let mut row = MessageRow {
        sequence: key.sequence,
        epoch: epoch_of(state, key.sequence),
        subject,
        key: state.keys.of(key.sequence),
        content: None,
        published: None,
        due: key.due,
        file: &file,
        offset: location.offset(),
        payload_check: None,
        published_sequence: entry.payload_sequence(),
    };
    let of_record = choice.has(Column::Published) || choice.has(Column::PayloadCheck) || filter.is_by_published();
    if of_record || choice.reads_payload() {
        let (message, check) = payloads.read(location, (&file, loaded), entry.payload_sequence())?;
        if !filter.takes_published(Some(message.published)) {
            return Ok(());
        }
        let malformed =
            || Error::corrupt(&file, u64::from(location.offset()), "id, tags and attributes", "other bytes");
        row.content = Some(Content::of(&message).ok_or_else(malformed)?);
        (row.published, row.payload_check) = (Some(message.published), Some(check));
        sink.row(&row);
    } else {
        sink.row(&row);
    }
    Ok(())
}

fn epoch_of(state: &State, sequence: Sequence) -> Option<Epoch> {
    let begun = state.epochs.partition_point(|info| info.first_sequence <= sequence);
    state.epochs.get(begun.checked_sub(1)?).map(|info| info.epoch)
}

/// The loaded run in which a payload lies, if it is in one.
fn loaded_in(state: &State, location: Location) -> Option<&Run> {
    match location.file() {
        LocationFile::Segment(_) => None,
        LocationFile::Run(number) => {
            state.runs.get(&number).map(|known| known.run.as_ref()).filter(|run| run.relation().is_some())
        }
    }
}

fn path_of(location: Location, loaded: Option<&Run>) -> String {
    match location.file() {
        LocationFile::Segment(segment) => segment_path(segment),
        LocationFile::Run(number) => loaded.map_or_else(|| run_path(number), |run| run.file().path().to_owned()),
    }
}

/// Reads messages where they lie.
struct Payloads {
    storage: Arc<dyn Storage>,
    open: Option<(LocationFile, Arc<dyn StorageFile>)>,
    bytes: Vec<u8>,
}

impl Payloads {
    /// The message at a location, and the check over its payload, which it has passed.
    fn read(
        &mut self,
        location: Location,
        (path, loaded): (&str, Option<&Run>),
        sequence: Sequence,
    ) -> Result<(Message<'_>, u32)> {
        let offset = u64::from(location.offset());
        let lost = |expected: &str, found: &str| Error::DamagedPayload {
            sequence: sequence.0,
            path: path.to_owned(),
            offset,
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        if location == Location::NOWHERE {
            return Err(lost("a place of its payload", "none"));
        }
        if let Some(run) = loaded {
            run.read_payload(offset, sequence, None, &mut self.bytes)?;
        } else {
            let file = match &self.open {
                Some((open, file)) if *open == location.file() => Arc::clone(file),
                _ => match self.storage.open(path) {
                    Err(error) if error.is_not_found() => {
                        let reason = format!("the payload of sequence {sequence} lies in it");
                        return Err(Error::MissingFile { path: path.to_owned(), reason });
                    }
                    other => other?,
                },
            };
            self.open = Some((location.file(), Arc::clone(&file)));
            read_payload(file.as_ref(), offset, sequence, None, &mut self.bytes)?;
        }
        let record = read_record(&self.bytes, sequence).map_err(|_| lost("a record", "other bytes"))?;
        let message = decode_message(&record).ok_or_else(|| lost("a message", "another record"))?;
        Ok((message, record.header.payload_check.get()))
    }
}
