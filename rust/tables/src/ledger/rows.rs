//! The rows of the table `deliveries`: the ledger's result, by the state at the end of the log.

use delaymq_core::schedule_log::EntryState;
use delaymq_core::store::State;
use delaymq_core::units::{GroupNumber, Millis};

use crate::ledger::delivery_ledger::Ledger;
use crate::ledger::gaps::{unfinished_by_state, word_of};
use crate::ledger::slots::{Delivery, Gone, Slot, Time, Word};
use crate::plan::range::Range;
use crate::rows::cells::Cell;
use crate::rows::row_batches::{Gathered, Row};
use crate::schema::column::Column;

/// What became of a message for a group, and when that is finished.
#[derive(Clone, Copy)]
struct Outcome {
    word: &'static str,
    ended: Time,
}

const fn unfinished(word: &'static str) -> Outcome {
    Outcome { word, ended: Time::NONE }
}

/// Shows the rows of one message.
pub(crate) fn show_slot(ledger: &Ledger, slot: &Slot, state: &State, range: &Range, sink: &mut Gathered) {
    if !is_asked(slot, range) {
        return;
    }
    let show = |sink: &mut Gathered, group: Option<(GroupNumber, Option<&Delivery>)>, outcome: Outcome| {
        sink.row(&DeliveryRow { slot, range, ids: &ledger.ids, group, outcome });
    };
    if !slot.is_ready {
        if let Some(outcome) = before_ready(ledger, slot, state) {
            show(sink, None, outcome);
        }
        return;
    }
    let groups = groups_of(ledger, slot, state);
    if groups.is_empty() {
        let outcome = slot.number.map_or_else(|| untold(ledger), |number| of_nobody(slot, state, number));
        show(sink, None, outcome);
    }
    for (group, delivery) in groups {
        let outcome = match delivery {
            Some(delivery) => of_delivery(ledger, delivery, (group, slot.number), state),
            None => of_group(slot, group, state),
        };
        show(sink, Some((group, delivery)), outcome);
    }
}

fn is_asked(slot: &Slot, range: &Range) -> bool {
    let filter = &range.filter;
    let is_other = filter.only_named && !range.names.contains_key(&slot.subject);
    let is_in_order = match slot.sequence {
        Some(sequence) => filter.takes_sequence(sequence),
        None => filter.first_sequence.is_none() && filter.end_sequence.is_none(),
    };
    !is_other && is_in_order && filter.takes_due(slot.due.get()) && filter.takes_published(slot.published.get())
}

/// The outcome of a message that neither the log nor the state mentions. If the log has gaps and the state could be
/// read whole, no group still needs it; otherwise it is unknown.
fn untold(ledger: &Ledger) -> Outcome {
    let is_known = ledger.numbered.is_some() && !ledger.is_doubtful;
    unfinished(if is_known { "finished" } else { "unknown" })
}

/// The outcome of a message that never became ready; `None` if only a command that came too late is known.
fn before_ready(ledger: &Ledger, slot: &Slot, state: &State) -> Option<Outcome> {
    let finished = |word| Some(Outcome { word, ended: slot.ended });
    match state.schedule.state(slot.entry) {
        EntryState::Pending => Some(unfinished("pending")),
        EntryState::Cancelled if slot.gone == Gone::Voided => finished("voided"),
        EntryState::Cancelled => finished("cancelled"),
        EntryState::Nothing if slot.is_doubtful || slot.entry < ledger.known_from => None,
        EntryState::Nothing if ledger.numbered.is_none() => Some(unfinished("refused")),
        // The fact that moved it, or made it ready, may be one that is not there.
        EntryState::Nothing | EntryState::Dispatched => Some(untold(ledger)),
    }
}

/// The groups of a ready message, by number, and what they got of it. If its number is not known, it is finished for
/// all groups that got nothing of it in the log.
fn groups_of<'a>(ledger: &'a Ledger, slot: &Slot, state: &State) -> Vec<(GroupNumber, Option<&'a Delivery>)> {
    let mut groups: Vec<(GroupNumber, Option<&Delivery>)> = Vec::new();
    let mut next = slot.first_delivery;
    while let Some(delivery) = next.and_then(|place| ledger.deliveries.get(place as usize)) {
        groups.push((delivery.group, Some(delivery)));
        next = delivery.next;
    }
    let subject = state.subjects.get(slot.subject).filter(|_| slot.number.is_some());
    for group in subject.into_iter().flat_map(|subject| subject.groups.iter()) {
        let begins = Some(state.groups.get(group).map_or(u64::MAX, |group| group.start.0));
        if begins <= slot.number && groups.iter().all(|(there, _)| there != group) {
            groups.push((*group, None));
        }
    }
    groups.sort_unstable_by_key(|(group, _)| *group);
    groups
}

/// A ready message without any group.
fn of_nobody(slot: &Slot, state: &State, number: u64) -> Outcome {
    let is_finished = number < state.dispatch.finished_below(slot.subject).0
        || state.subjects.get(slot.subject).is_some_and(|subject| subject.gone.contains(number));
    match slot.gone {
        Gone::Expired => Outcome { word: "expired", ended: slot.ended },
        Gone::Voided => Outcome { word: "voided", ended: slot.ended },
        Gone::No if is_finished => unfinished("skipped"),
        Gone::No => unfinished("ready"),
    }
}

/// A group that was given nothing of it in the log.
fn of_group(slot: &Slot, group: GroupNumber, state: &State) -> Outcome {
    if let Some(word) = slot.number.and_then(|number| word_of(state, group, number, "ready")) {
        return unfinished(word);
    }
    match slot.gone {
        Gone::Expired => Outcome { word: "expired", ended: slot.ended },
        Gone::Voided => Outcome { word: "voided", ended: slot.ended },
        Gone::No => unfinished("finished"),
    }
}

fn of_delivery(ledger: &Ledger, delivery: &Delivery, of: (GroupNumber, Option<u64>), state: &State) -> Outcome {
    let (group, _) = of;
    let finished = |word| Outcome { word, ended: delivery.ended };
    let waits = match delivery.word {
        Word::Acknowledged => return finished("acknowledged"),
        Word::Filtered => return finished("filtered"),
        Word::DeadLetter => return finished("dead_letter"),
        Word::ExpiredDeadLetter => return finished("expired_dead_letter"),
        Word::Expired => return finished("expired"),
        Word::Voided => return finished("voided"),
        Word::Cancelled => return finished("cancelled"),
        Word::Held(..) => "in_flight",
        Word::Waits if delivery.retry.is_some() => "retrying",
        Word::Waits => "ready",
    };
    let removed = match delivery.retry {
        // The retry of a group outlives the group, unless both were removed.
        Some((entry, subject)) => {
            let before = state.subjects.get(subject).map(|subject| subject.ended_before).unwrap_or_default();
            (entry < before).then(|| ledger.ending_facts.get(&before).copied().unwrap_or(Time::NONE))
        }
        None if state.groups.contains_key(&group) => None,
        None => Some(ledger.ended_groups.get(&group).copied().unwrap_or(Time::NONE)),
    };
    if let Some(ended) = removed {
        return Outcome { word: "removed", ended };
    }
    // Facts that are not there may have ended it.
    let has_gaps = ledger.numbered.is_some() || (delivery.is_older && delivery.retry.is_some());
    let word = has_gaps.then(|| unfinished_by_state(ledger, delivery, state, of));
    unfinished(word.unwrap_or(Some(waits)).unwrap_or("finished"))
}

/// A message and one of its groups.
struct DeliveryRow<'a> {
    slot: &'a Slot,
    range: &'a Range,
    ids: &'a str,
    group: Option<(GroupNumber, Option<&'a Delivery>)>,
    outcome: Outcome,
}

impl DeliveryRow<'_> {
    fn delivered(&self) -> Option<Millis> {
        self.group.and_then(|(_, delivery)| delivery?.delivered.get())
    }

    fn lateness(&self) -> Option<i64> {
        let (delivered, due) = (self.delivered()?, self.slot.due.get()?);
        let signed = |time: Millis| i64::try_from(time.0).unwrap_or(i64::MAX);
        Some(signed(delivered).saturating_sub(signed(due)))
    }

    fn id(&self) -> Option<&str> {
        let (from, length) = (self.slot.id.0 as usize, self.slot.id.1 as usize);
        self.ids.get(from..from.saturating_add(length)).filter(|id| !id.is_empty())
    }
}

impl Row for DeliveryRow<'_> {
    fn cell(&self, column: Column, _written: &mut String) -> Cell<'_> {
        let Self { slot, range, group, outcome, .. } = self;
        let name = |group: &(GroupNumber, _)| range.parties.groups.get(&group.0).map(|(_, name)| name.as_str());
        match column {
            Column::Sequence => Cell::number(slot.sequence.map(|sequence| sequence.0)),
            Column::Subject => Cell::text(range.names.get(&slot.subject).map(String::as_str)),
            Column::Group => Cell::text(group.as_ref().and_then(name)),
            Column::Number => Cell::number(slot.number),
            Column::MessageId => Cell::text(self.id()),
            Column::Published => Cell::time(slot.published.get()),
            Column::Due => Cell::time(slot.due.get()),
            Column::Ready => Cell::time(slot.ready.get()),
            Column::Delivered => Cell::time(self.delivered()),
            Column::Acknowledged => Cell::time(outcome.ended.get().filter(|_| outcome.word == "acknowledged")),
            Column::Attempts => {
                Cell::number(group.map(|(_, delivery)| delivery.map_or(0, |delivery| u64::from(delivery.attempts))))
            }
            Column::Outcome => Cell::Text(outcome.word),
            Column::LatenessMs => self.lateness().map_or(Cell::Null, Cell::Signed),
            Column::Ended => Cell::time(outcome.ended.get()),
            Column::EntrySequence => Cell::number(Some(slot.entry.0).filter(|entry| *entry > 0)),
            Column::GroupNumber => Cell::number(group.map(|(number, _)| u64::from(number.0))),
            _ => Cell::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::ledger::slots::slot_of;
    use delaymq_core::message_log::Stream;
    use delaymq_core::store::LogPosition;
    use delaymq_core::units::{Sequence, SubjectNumber};

    #[test]
    fn what_was_dispatched_and_never_ready_is_unknown_unless_the_log_has_gaps() {
        let position = LogPosition { next_sequence: Sequence(1), ..LogPosition::default() };
        let mut state = State::new(Stream { id: [7; 16], timeline: 1 }, position);
        state.schedule.note_dispatched_at_once(Sequence(1));
        state.schedule.skip(Sequence(2));
        let mut ledger = Ledger::new(Sequence(1), Sequence(3), Sequence(1), Sequence(1));
        let words = |ledger: &Ledger| {
            [1, 2].map(|entry| {
                before_ready(ledger, &slot_of(SubjectNumber(1), Sequence(entry)), &state).map(|outcome| outcome.word)
            })
        };
        assert_eq!(words(&ledger), [Some("unknown"), Some("refused")]);
        ledger.numbered = Some(HashMap::new());
        assert_eq!(words(&ledger), [Some("finished"), Some("finished")]);
        ledger.is_doubtful = true;
        assert_eq!(words(&ledger), [Some("unknown"), Some("unknown")]);
    }
}
