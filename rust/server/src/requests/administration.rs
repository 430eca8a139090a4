//! Requests of operators, and CANCEL, MOVE and STATUS. Each waits for the log or for the owner, so it runs on the
//! blocking pool.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::units::ReadyNumber;
use delaymq_core::wire::extension::administration::{Expire, GroupAt, GroupName, Listed, Listing, Redrive};
use delaymq_core::wire::extension::consume::PayloadForm;
use delaymq_core::wire::extension::consumers::Consumers;
use delaymq_core::wire::extension::dead_letters::{DeadLetters, Letter, LetterPayload, Letters};
use delaymq_core::wire::extension::errors::{Attribute, RemoteError};
use delaymq_core::wire::extension::moves::{Moved, put_moved};
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, put_outcomes};
use delaymq_core::wire::extension::status::StatusTold;
use delaymq_engine::{
    CancelOutcome, ConsumerListed, DeadLetter, Due, GroupListed, MoveOutcome, Receipt, Status, Store, SubjectListed,
};
use tokio::task::spawn_local;

use crate::blocking_pool::{Pool, Work};
use crate::requests::publish::due_of;
use crate::requests::responder::Responder;

/// Bytes of one piece of a list, roughly: well within a frame.
const LIST_BYTES: usize = 4 << 20;
/// The most bytes of a row without its texts.
const ROW_BYTES: usize = 128;

/// Runs `work` on the blocking pool and answers with the body that it returns.
pub(crate) fn run(responder: Responder, kind: Work, work: impl FnOnce(&Store) -> Result<Vec<u8>> + Send + 'static) {
    let Some(place) = responder.state().pool.place() else { return responder.busy() };
    let store = Arc::clone(&responder.state().store);
    spawn_local(async move { tell(responder, Pool::ask(place, kind, move || work(&store)).await) });
}

/// As [`run`], for work that may wait for a sync.
pub(crate) fn ask(responder: Responder, work: impl FnOnce(&Store) -> Result<Vec<u8>> + Send + 'static) {
    run(responder, Work::Request, work);
}

/// As [`run`], for work that needs no sync.
pub(crate) fn look(responder: Responder, look: impl FnOnce(&Store) -> Result<Vec<u8>> + Send + 'static) {
    run(responder, Work::LookUp, look);
}

/// Answers with this body; `None` if the work panicked.
fn tell(responder: Responder, done: Option<Result<Vec<u8>>>) {
    match done {
        Some(Ok(body)) => responder.answer_with(|out| {
            out.extend_from_slice(&body);
            Ok(())
        }),
        Some(Err(error)) => responder.failed(&error),
        None => responder.died(),
    }
}

/// As [`ask`], for a piece of a list. It waits until the peer has read earlier answers. Each connection has one at a
/// time.
pub(crate) fn list(responder: Responder, work: impl FnOnce(&Store) -> Result<Vec<u8>> + Send + 'static) {
    let (peer, store) = (Rc::clone(responder.peer()), Arc::clone(&responder.state().store));
    spawn_local(async move {
        let Some(_turn) = peer.turn_to_list().await else { return responder.died() };
        let Some(place) = responder.state().pool.place() else { return responder.busy() };
        let done = Pool::ask(place, Work::Request, move || work(&store)).await;
        // Others took the room meanwhile: the rows stay in the store.
        if matches!(done, Some(Ok(_))) && !peer.has_answer_room() {
            return responder.busy();
        }
        tell(responder, done);
    });
}

/// As [`ask`], for an answer without a body.
fn change(responder: Responder, work: impl FnOnce(&Store) -> Result<()> + Send + 'static) {
    ask(responder, |store| work(store).map(|()| Vec::new()));
}

pub(crate) fn filled(fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    fill(&mut body).map(|()| body)
}

/// The body of an answer that is a count.
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// The outcome of a cancel, for the wire.
pub(crate) const fn cancelled(outcome: CancelOutcome) -> Cancelled {
    match outcome {
        CancelOutcome::Done => Cancelled::Done,
        CancelOutcome::AlreadyDispatched => Cancelled::AlreadyDispatched,
        CancelOutcome::NotFound => Cancelled::NotFound,
    }
}

/// The outcome of a move, for the wire.
pub(crate) const fn moved(outcome: MoveOutcome) -> Moved {
    match outcome {
        MoveOutcome::Done(receipt) => Moved::Done(receipt),
        MoveOutcome::AlreadyDispatched => Moved::AlreadyDispatched,
        MoveOutcome::NotFound => Moved::NotFound,
    }
}

pub(crate) fn cancel(responder: Responder, receipts: Vec<Receipt>) {
    ask(responder, move |store| {
        let outcomes = store.cancel_many(&receipts)?;
        let told: Vec<_> = outcomes.into_iter().map(cancelled).collect();
        filled(|out| put_outcomes(out, &told))
    });
}

pub(crate) fn move_messages(responder: Responder, moves: Vec<(Receipt, DueTime)>) {
    let moves: Vec<(Receipt, Due)> = moves.into_iter().map(|(receipt, time)| (receipt, due_of(time))).collect();
    for (index, (_, due)) in moves.iter().enumerate() {
        if let Err(error) = responder.state().store.check_due(*due) {
            return responder.refused(&RemoteError::from(&error).with(Attribute::Index, index as u64));
        }
    }
    ask(responder, move |store| {
        let told: Vec<_> = store.move_many(&moves)?.into_iter().map(moved).collect();
        filled(|out| put_moved(out, &told))
    });
}

pub(crate) fn status(responder: Responder) {
    look(responder, |store| {
        let told = status_told(store.status()?);
        filled(|out| told.put(out))
    });
}

/// The answer to STATUS.
pub fn status_told(status: Status) -> StatusTold {
    StatusTold {
        durability: status.durability,
        created: status.created,
        closed: status.closed,
        held: status.held,
        disk_full: status.disk_full,
        room_low: status.room_low,
        free_bytes: status.free_bytes,
        poisoned: status.poisoned,
        epoch: status.epoch,
        pending: status.pending,
        ready: status.ready,
        accepted: status.accepted,
        visible: status.visible,
        applied: status.applied,
        now: status.now,
        recovered_ms: u64::try_from(status.recovered_in.as_millis()).unwrap_or(u64::MAX),
        recovered_facts: status.recovered_facts,
        voided: status.voided,
        expired: status.expired,
        hot_minutes: status.hot_minutes,
        aside: status.aside,
        zones: status.zones.to_string(),
    }
}

/// The rows behind `after` that fit into one piece, and where the next piece begins.
fn piece<T>(mut rows: Vec<T>, listing: Listing, number: impl Fn(&T) -> u64, bytes: impl Fn(&T) -> usize) -> Listed<T> {
    rows.sort_by_key(&number);
    rows.retain(|row| number(row) > listing.after);
    let mut left = LIST_BYTES;
    let fits = |row: &&T| {
        let has_room = left > 0;
        left = left.saturating_sub(bytes(row).saturating_add(ROW_BYTES));
        has_room
    };
    let count = rows.iter().take(listing.count_max as usize).take_while(fits).count();
    let is_last = count == rows.len();
    rows.truncate(count);
    let next = rows.last().filter(|_| !is_last).map_or(0, &number);
    Listed { next, rows }
}

pub(crate) fn groups(responder: Responder, listing: Listing) {
    list(responder, move |store| {
        let bytes = |group: &GroupListed| group.name.len().saturating_add(group.subject.len());
        let listed = piece(store.groups()?, listing, |group| u64::from(group.number.0), bytes);
        filled(|out| listed.put(out))
    });
}

pub(crate) fn subjects(responder: Responder, listing: Listing) {
    list(responder, move |store| {
        let bytes = |subject: &SubjectListed| {
            let groups = subject.groups.iter().map(|group| group.len().saturating_add(2));
            groups.fold(subject.name.len(), usize::saturating_add)
        };
        let listed = piece(store.subjects()?, listing, |subject| u64::from(subject.number.0), bytes);
        filled(|out| listed.put(out))
    });
}

pub(crate) fn consumers(responder: Responder, consumers: &Consumers<'_>) {
    let (subject, group) = (consumers.name.subject.to_owned(), consumers.name.group.to_owned());
    let listing = consumers.listing;
    list(responder, move |store| {
        let bytes = |consumer: &ConsumerListed| consumer.name.len().saturating_add(consumer.subject.len());
        let rows = store.consumers(&subject, &group)?;
        let listed = piece(rows, listing, |consumer| u64::from(consumer.number.0), bytes);
        filled(|out| listed.put(out))
    });
}

pub(crate) fn start_group(responder: Responder, at: &GroupAt<'_>) {
    let (subject, group, start) = (at.name.subject.to_owned(), at.name.group.to_owned(), at.start);
    change(responder, move |store| store.start_group(&subject, &group, start));
}

pub(crate) fn reset_group(responder: Responder, at: &GroupAt<'_>) {
    let (subject, group, start) = (at.name.subject.to_owned(), at.name.group.to_owned(), at.start);
    change(responder, move |store| store.reset_group(&subject, &group, start));
}

pub(crate) fn remove_group(responder: Responder, name: &GroupName<'_>) {
    let (subject, group) = (name.subject.to_owned(), name.group.to_owned());
    change(responder, move |store| store.remove_group(&subject, &group));
}

pub(crate) fn redrive(responder: Responder, redrive: &Redrive<'_>) {
    let (subject, group) = (redrive.name.subject.to_owned(), redrive.name.group.to_owned());
    let limit = usize::try_from(redrive.count_max).unwrap_or(usize::MAX);
    ask(responder, move |store| store.redrive(&subject, &group, Some(limit)).map(number));
}

pub(crate) fn expire(responder: Responder, expire: &Expire<'_>) {
    let (subject, older_than_ms) = (expire.subject.to_owned(), expire.older_than_ms);
    ask(responder, move |store| store.expire(&subject, older_than_ms).map(number));
}

pub(crate) fn dead_letters(responder: Responder, letters: &DeadLetters<'_>) {
    let (subject, group) = (letters.name.subject.to_owned(), letters.name.group.to_owned());
    let listing = letters.listing;
    list(responder, move |store| {
        let count_max = listing.count_max as usize;
        let found = store.dead_letters_from(&subject, &group, ReadyNumber(listing.after), count_max)?;
        letters_told(&found, count_max)
    });
}

/// As many letters as fit, at least one, and where the next piece begins.
fn letters_told(found: &[DeadLetter], count_max: usize) -> Result<Vec<u8>> {
    let mut bytes = 0_usize;
    let fits = |letter: &&DeadLetter| {
        let payload = letter.payload.as_ref().map_or(0, |payload| payload.all().len());
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(payload).saturating_add(letter.reason.len()).saturating_add(ROW_BYTES);
        is_first || bytes <= LIST_BYTES
    };
    let told: Vec<&DeadLetter> = found.iter().take_while(fits).collect();
    let has_more = told.len() < found.len() || found.len() == count_max;
    let next = told.last().filter(|_| has_more).map_or(0, |last| last.number.next().0);
    let letters = Letters { next, letters: told.into_iter().map(letter).collect() };
    filled(|out| letters.put(out))
}

fn letter(letter: &DeadLetter) -> Letter<'_> {
    let payload = letter.payload.as_ref().zip(letter.published);
    Letter {
        number: letter.number,
        sequence: letter.sequence,
        died: letter.died,
        attempt: letter.attempt,
        reason: &letter.reason,
        damage: letter.damage.as_deref(),
        payload: payload.map(|(payload, published)| LetterPayload {
            published,
            form: if payload.is_opaque() { PayloadForm::Opaque } else { PayloadForm::Qmq },
            meta_length: payload.meta().len() as u32,
            bytes: payload.all(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(rows: &[u64], listing: Listing, bytes: usize) -> (u64, Vec<u64>) {
        let listed = piece(rows.to_vec(), listing, |row| *row, |_| bytes);
        (listed.next, listed.rows)
    }

    #[test]
    fn a_list_comes_in_pieces_that_end() {
        let after = |after, count_max| Listing { after, count_max };
        assert_eq!(pieces(&[5, 2, 9], after(0, 2), 0), (5, vec![2, 5]));
        assert_eq!(pieces(&[5, 2, 9], after(5, 2), 0), (0, vec![9]));
        assert_eq!(pieces(&[5, 2, 9], after(0, 3), 0), (0, vec![2, 5, 9]));
        assert_eq!(pieces(&[5, 2, 9], after(0, 3), LIST_BYTES), (2, vec![2]), "one is always told");
        assert_eq!(pieces(&[], after(0, 3), 0), (0, vec![]));
    }
}
