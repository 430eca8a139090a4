//! Verifies a store: reads every record, every payload and every block of every run. Also checks that the older
//! checkpoint and the log after it give the same state as the newer checkpoint, and that the state is consistent. No
//! file is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::verified_runs::{verify_runs, verify_unnamed_loads};
use crate::error::{Error, Result};
use crate::message_log::{ASIDE_FOLDER, Identity, ScanStart, ScannedBatch, Scanner, Stream, segment_path};
use crate::record::command::Void;
use crate::record::{Fact, decode};
use crate::run::DamagedBlock;
use crate::schedule_log::Cells;
use crate::storage::{Storage, names_in};
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::{checkpoint_path, list_checkpoints};
use crate::store::checkpoint::snapshot::Snapshot;
use crate::store::checkpoint::subject_codec::QueueSnapshot;
use crate::store::inspect::verification::Verification;
use crate::store::owner::{Owner, VisibleBatch};
use crate::store::recovery::restoration::{restored_owner, scan_start};
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::forecast::Sizes;
use crate::store::state::{LogPosition, State};
use crate::units::{Location, Sequence, SubjectNumber, Utc};

/// The progress of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerificationProgress {
    /// Log bytes read so far.
    pub bytes: u64,
    /// Log bytes to read in all.
    pub bytes_whole: u64,
}

/// Verifies a store that no process has open.
///
/// # Errors
/// `Storage`, `NewerFormat`; all other errors become findings.
pub fn verify(storage: &Arc<dyn Storage>, identity: &Identity) -> Result<Verification> {
    verify_telling(storage, identity, &mut |_| {})
}

/// Verifies a store as [`verify`] does, and reports progress.
///
/// # Errors
/// As [`verify`].
pub fn verify_telling(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    progress: &mut dyn FnMut(VerificationProgress),
) -> Result<Verification> {
    let mut found = Verification::default();
    let mut checkpoints = Vec::new();
    for number in list_checkpoints(storage.as_ref())? {
        found.checkpoints += 1;
        match read_checkpoint(storage.as_ref(), &identity.stream, number) {
            Ok(read) => checkpoints.push(read),
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) => found.findings.push(error.to_string()),
        }
    }
    verify_runs(storage.as_ref(), &identity.stream.id, &checkpoints, &mut found)?;
    found.set_aside =
        names_in(storage.as_ref(), ASIDE_FOLDER)?.iter().map(|name| format!("{ASIDE_FOLDER}/{name}")).collect();
    let older = if checkpoints.len() > 1 { checkpoints.first() } else { None };
    let newer = checkpoints.last();
    let mut target = older.and(newer).map(|read| (read.number, &read.snapshot));
    let restored = match restored_owner(storage, identity.stream, older.or(newer)) {
        // The log after the newest checkpoint is still read.
        Err(error) if older.is_some() => {
            tell_once(&error, &mut found);
            target = None;
            restored_owner(storage, identity.stream, newer)
        }
        other => other,
    };
    let mut owner = match restored {
        Ok(owner) => owner,
        Err(error) => {
            tell_once(&error, &mut found);
            return Ok(found);
        }
    };
    if let Err(error) = replay(storage, identity, &mut owner, target, &mut found, progress) {
        found.findings.push(error.to_string());
    }
    verify_unnamed_loads(owner.state(), &checkpoints, &mut found);
    if let Some(newest) = older.and(newer) {
        compare_newest(storage, identity.stream, newest, &mut found)?;
    }
    Ok(found)
}

/// Reports an error once: [`verify_runs`] has already reported each run that cannot be opened.
fn tell_once(error: &Error, found: &mut Verification) {
    let words = error.to_string();
    if !found.findings.iter().any(|told| told.starts_with(&words)) {
        found.findings.push(words);
    }
}

/// Compares the cells of the newest checkpoint with its pending messages. An open trusts these cells, and the replay
/// began at the older checkpoint. Runs that cannot be opened are already reported.
fn compare_newest(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    newest: &ReadCheckpoint,
    found: &mut Verification,
) -> Result<()> {
    let mut owner = match restored_owner(storage, stream, Some(newest)) {
        Ok(owner) => owner,
        Err(error @ Error::Storage { .. }) if !error.is_not_found() => return Err(error),
        Err(_) => return Ok(()),
    };
    owner.settle_counts()?;
    let mut own = Verification::default();
    compare_forecast(owner.state(), storage, &mut own)?;
    let path = checkpoint_path(newest.number);
    found.findings.extend(own.findings.into_iter().map(|words| format!("{path}: {words}")));
    Ok(())
}

/// Reads the log from its floor. Batches before the checkpoint are only checked; batches after the checkpoint are
/// also applied.
fn replay(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    owner: &mut Owner,
    target: Option<(u32, &Snapshot)>,
    found: &mut Verification,
    progress: &mut dyn FnMut(VerificationProgress),
) -> Result<()> {
    let position = owner.state().position;
    let floor = owner.state().segments.first().map_or(position, |start| start.position);
    let start = ScanStart { vouched: position.end, ..scan_start(&floor) };
    let mut scanner = Scanner::past(Arc::clone(storage), identity.stream, &start, &owner.state().holes)?;
    let (mut bytes, bytes_whole) = (0_u64, scanner.ending().bytes);
    owner.settle_counts()?;
    compare_at(owner, target, found);
    while let Some(batch) = scanner.next_batch()? {
        check_batch(&batch, owner.state(), found);
        bytes = bytes.saturating_add(u64::from(batch.header.length.get()));
        progress(VerificationProgress { bytes, bytes_whole });
        if batch.start >= position.end {
            owner.apply_facts(&VisibleBatch::from(&batch))?;
            owner.settle_counts()?;
            compare_at(owner, target, found);
        }
        scanner.recycle(batch.bytes);
    }
    compare_counts(owner.state(), found)?;
    compare_forecast(owner.state(), storage, found)
}

/// Checks the payloads of a batch, and notes the messages that its facts voided.
fn check_batch(batch: &ScannedBatch, state: &State, found: &mut Verification) {
    found.batches += 1;
    for (location, record) in batch.facts() {
        found.records += 1;
        if record.payload_is_whole() {
            if let Some(Fact::Void(void)) = decode(&record) {
                found.voided.push(words_of(void, state));
            }
        } else {
            let path = location.segment().map(segment_path).unwrap_or_default();
            found.findings.push(format!(
                "{path} is damaged at offset {}: the payload of sequence {} does not fit its check {:08x}",
                location.offset(),
                record.sequence,
                record.header.payload_check
            ));
        }
    }
}

fn words_of(void: Void, state: &State) -> String {
    match void {
        Void::Ready { subject, number } => {
            let name = state.subjects.get(subject).map(|subject| subject.name.as_str()).unwrap_or_default();
            format!("ready message {number} of subject {name:?}")
        }
        Void::Pending { sequence, .. } => format!("the pending message of sequence {sequence}"),
    }
}

/// Returns an error if a block could not be read. Such a block is not a finding: it is unknown whether it is damaged.
fn refuse_unread(damaged: &[DamagedBlock]) -> Result<()> {
    let unread = damaged.iter().find(|block| matches!(block.error, Error::Storage { .. }));
    unread.map_or(Ok(()), |block| Err(block.error.clone()))
}

/// Compares the pending count of each subject with its pending messages. A damaged block is a finding of its own, and
/// its messages cannot be counted, so the counts are not compared then.
fn compare_counts(state: &State, found: &mut Verification) -> Result<()> {
    let (counted, damaged) = state.count_pending();
    refuse_unread(&damaged)?;
    if damaged.is_empty() && counted != state.pending_counts() {
        let kept = state.pending_counts();
        let other = counted.keys().chain(kept.keys()).find(|subject| counted.get(subject) != kept.get(subject));
        let Some(subject) = other else { return Ok(()) };
        let name = state.subjects.get(*subject).map(|subject| subject.name.as_str()).unwrap_or_default();
        let of = |counts: &BTreeMap<SubjectNumber, u64>| counts.get(subject).copied().unwrap_or_default();
        let (counted, kept) = (of(&counted), of(&kept));
        found.findings.push(format!("{counted} messages of subject {name:?} are pending, and {kept} are counted"));
    }
    Ok(())
}

/// Compares the totals of each minute and the cells of each subject with the pending messages. Like
/// [`compare_counts`], reports no difference if a block of a run is damaged.
fn compare_forecast(state: &State, storage: &Arc<dyn Storage>, found: &mut Verification) -> Result<()> {
    let (counted, damaged) = state.count_cells(storage)?;
    refuse_unread(&damaged)?;
    let sizes = Sizes::new(storage);
    let kept = state.horizon(None).read(&|entry| sizes.of(entry).unwrap_or_default())?;
    sizes.into_result()?;
    if !damaged.is_empty() || kept.hidden_rows > 0 {
        return Ok(());
    }
    if !state.totals_are(&counted) {
        found.findings.push("other totals are kept of what is due in each minute than are pending".to_owned());
    }
    let keys = counted.keys().chain(kept.cells.keys());
    if let Some(key @ (subject, minute)) = keys.into_iter().find(|key| counted.get(key) != kept.cells.get(key)) {
        let name = state.subjects.get(*subject).map(|subject| subject.name.as_str()).unwrap_or_default();
        let of = |cells: &Cells| cells.get(key).copied().unwrap_or_default();
        let (counted, kept) = (of(&counted), of(&kept.cells));
        found.findings.push(format!(
            "{} messages of {} bytes of subject {name:?} are due within a minute of {}, and {} of {} are told",
            counted.messages,
            counted.bytes,
            Utc(minute.start()),
            kept.messages,
            kept.bytes
        ));
    }
    Ok(())
}

/// Compares both states once the replay reaches the newer checkpoint's position: they must be equal.
fn compare_at(owner: &Owner, target: Option<(u32, &Snapshot)>, found: &mut Verification) {
    let Some((number, expected)) = target else { return };
    if expected.position.next_sequence != owner.applied() {
        return;
    }
    for difference in differences(expected, owner) {
        found.findings.push(format!("{} says otherwise than the log: {difference}", checkpoint_path(number)));
    }
}

fn differences(expected: &Snapshot, owner: &Owner) -> Vec<String> {
    let actual = &Snapshot::without_windows(owner.state());
    let mut found = Vec::new();
    let mut compare = |what: &str, same: bool| {
        if !same {
            found.push(what.to_owned());
        }
    };
    let without_end = |position: &LogPosition| LogPosition { end: Location(0), ..*position };
    compare("the position", without_end(&expected.position) == without_end(&actual.position));
    compare("the epochs", expected.epochs == actual.epochs);
    compare("the subjects", expected.subjects == actual.subjects);
    let ready = |queue: &QueueSnapshot| QueueSnapshot { pending: 0, ..*queue };
    let all_ready =
        |snapshot: &Snapshot| -> Vec<_> { snapshot.queues.iter().map(|(at, one)| (*at, ready(one))).collect() };
    compare("the ready messages", all_ready(expected) == all_ready(actual));
    let counted = |snapshot: &Snapshot| -> Vec<_> { snapshot.queues.values().map(|one| one.pending).collect() };
    compare("how many messages of each subject are pending", counted(expected) == counted(actual));
    compare("how much is due in each minute", expected.totals == actual.totals);
    compare("the groups and consumers", expected.groups == actual.groups);
    compare("the removed groups", expected.ended_groups == actual.ended_groups);
    compare("the messages that were moved", expected.moves.agrees_with(&actual.moves));
    compare("the keys of pending messages", expected.keys == actual.keys);
    compare("the keys of messages that became ready lately", expected.dispatched_keys == actual.dispatched_keys);
    compare("the ids of what was published lately", expected.ids == actual.ids);
    compare("what was loaded lately", expected.load_jobs == actual.load_jobs);
    compare("what recurs", expected.recurring == actual.recurring);
    compare(
        "the next numbers",
        (expected.next_group, expected.next_consumer, expected.voided)
            == (actual.next_group, actual.next_consumer, actual.voided),
    );
    // Retention may have removed a different number of segments in each state.
    let of = |snapshot: &Snapshot| -> BTreeMap<_, _> {
        snapshot.segments.iter().map(|start| (start.segment, start.subjects.clone())).collect()
    };
    let (told, known) = (of(expected), of(actual));
    let is_same = |(segment, subjects): (_, &FileSubjects)| {
        subjects.known().is_none() || known.get(segment).is_none_or(|known| known == subjects)
    };
    compare("whose messages each segment has", told.iter().all(is_same));
    if let Some(sequence) = first_other_state(expected, owner) {
        found.push(format!("what became of sequence {sequence}"));
    }
    found
}

/// The first sequence of the expected windows whose two bits differ.
fn first_other_state(expected: &Snapshot, owner: &Owner) -> Option<Sequence> {
    for window in &expected.windows {
        let mut sequence = window.bits.first();
        while sequence < window.bits.end() {
            if owner.state().schedule.state(sequence) != window.bits.get(sequence) {
                return Some(sequence);
            }
            sequence = sequence.next();
        }
    }
    None
}
