//! What a fact says, in the columns of the table `action`.

use std::fmt::Write;

use delaymq_core::record::Fact;
use delaymq_core::record::attach::Attach;
use delaymq_core::record::command::{Cancel, Move, Void};
use delaymq_core::record::name::{GroupEnd, GroupStart};
use delaymq_core::record::queue::{Acknowledge, Assign, Ranges};
use delaymq_core::record::recurring::Recur;
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::record::terms::{ByKey, KeyCommand, NameHash};
use delaymq_core::units::{
    ConsumerNumber, DueKey, Epoch, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber,
};

use crate::column::Column;
use crate::message_row::key_cell;
use crate::rows::{Cell, Row};

/// What a fact says by itself; what it does not say is `None`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    kind: &'static str,
    pub(crate) subject: Option<SubjectNumber>,
    target: Option<Sequence>,
    target_due: Option<Millis>,
    pub(crate) target_subject: Option<SubjectNumber>,
    published: Option<Sequence>,
    pub(crate) due: Option<Millis>,
    delay_ms: Option<u64>,
    key: Option<NameHash>,
    pub(crate) group: Option<&'a str>,
    pub(crate) group_number: Option<GroupNumber>,
    pub(crate) consumer: Option<&'a str>,
    pub(crate) consumer_number: Option<ConsumerNumber>,
    number: Option<ReadyNumber>,
    offset: Option<PullOffset>,
    ranges: Option<Ranges<'a>>,
    attempt: Option<u32>,
    start: Option<GroupStart>,
    name: Option<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// `None` for a fact that is no action.
    pub(crate) fn of(fact: &Fact<'a>) -> Option<Self> {
        Self::of_entry(fact).or_else(|| Self::of_party(fact)).or_else(|| Self::of_delivery(fact))
    }

    fn is(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    fn about(self, target: DueKey) -> Self {
        Self { target: Some(target.sequence), target_due: Some(target.due), ..self }
    }

    /// What is asked of a pending message, or of a series.
    fn of_entry(fact: &Fact<'a>) -> Option<Self> {
        // Formats 1 to 3 did not say of which subject a cancelled message is, and said 0.
        let named = |subject: SubjectNumber| Some(subject).filter(|subject| subject.0 > 0);
        Some(match *fact {
            Fact::Cancel(Cancel { target, subject, .. }) => {
                Self { subject: named(subject), ..Self::is("cancel").about(target) }
            }
            Fact::Move(Move { target, due, delay_ms, subject, .. }) => {
                Self { subject: named(subject), due: Some(due), delay_ms, ..Self::is("move").about(target) }
            }
            Fact::ByKey(ByKey { key, subject, target, command }) => {
                let said = match command {
                    KeyCommand::Cancel => Self::is("cancel_by_key"),
                    KeyCommand::Move { due, delay_ms } => Self { due: Some(due), delay_ms, ..Self::is("move_by_key") },
                };
                let said = target.map_or(said, |target| said.about(target));
                Self { key: Some(key), subject: named(subject), ..said }
            }
            Fact::Void(Void::Pending { subject, sequence }) => {
                Self { subject: named(subject), target: Some(sequence), ..Self::is("void") }
            }
            Fact::Void(Void::Ready { subject, number }) => {
                Self { subject: named(subject), number: Some(number), ..Self::is("void") }
            }
            Fact::Recur(Recur::Begin(new)) => {
                Self { subject: named(new.subject), name: Some(new.name), ..Self::is("recur") }
            }
            Fact::Recur(Recur::End { subject, name }) => {
                Self { subject: named(subject), name: Some(name), ..Self::is("recur_end") }
            }
            Fact::Recur(Recur::Over { series }) => Self { target: Some(series), ..Self::is("recur_over") },
            _ => return None,
        })
    }

    /// Groups and consumers that come and go.
    fn of_party(fact: &Fact<'a>) -> Option<Self> {
        Some(match *fact {
            Fact::Group { subject, start, name } => {
                Self { subject: Some(subject), start: Some(start), group: Some(name), ..Self::is("group") }
            }
            Fact::GroupEnd { group, end } => {
                let kind = match end {
                    GroupEnd::Alone => "group_end",
                    GroupEnd::WithItsRetries => "group_end_with_retries",
                };
                Self { group_number: Some(group), ..Self::is(kind) }
            }
            Fact::GroupReset { group, start } => {
                Self { group_number: Some(group), start: Some(start), ..Self::is("group_reset") }
            }
            Fact::Consumer { group, name } => {
                Self { group_number: Some(group), consumer: Some(name), ..Self::is("consumer") }
            }
            Fact::ConsumerEnd { group, consumer } => {
                Self { group_number: Some(group), consumer_number: Some(consumer), ..Self::is("consumer_end") }
            }
            Fact::Attach(Attach { subject, start, group, consumer, .. }) => Self {
                subject: Some(subject),
                start: Some(start),
                group: Some(group),
                consumer: Some(consumer),
                ..Self::is("attach")
            },
            _ => return None,
        })
    }

    /// What is handed over, and how that ends.
    fn of_delivery(fact: &Fact<'a>) -> Option<Self> {
        let held = |kind, group, consumer| Self {
            group_number: Some(group),
            consumer_number: Some(consumer),
            ..Self::is(kind)
        };
        Some(match *fact {
            Fact::Assign(Assign { group, consumer, first_offset, numbers }) => {
                let number = numbers.iter().next().map(|range| ReadyNumber(range.first));
                let (offset, ranges) = (Some(first_offset), Some(numbers));
                Self { number, offset, ranges, ..held("assign", group, consumer) }
            }
            Fact::Acknowledge(Acknowledge { group, consumer, offsets }) => {
                let offset = offsets.iter().next().map(|range| PullOffset(range.first));
                Self { offset, ranges: Some(offsets), ..held("acknowledge", group, consumer) }
            }
            Fact::Retry(retry) => Self::of_retry(&retry, held("retry", retry.group, retry.consumer)),
            Fact::Redrive(Redrive { group, target, number, due, payload_sequence }) => Self {
                group_number: Some(group),
                target_subject: Some(target),
                number: Some(number),
                due: Some(due),
                published: Some(payload_sequence),
                ..Self::is("redrive")
            },
            Fact::Expire(expire) => Self {
                subject: Some(expire.subject),
                due: Some(expire.due_before),
                number: expire.numbers.iter().next().map(|range| ReadyNumber(range.first)),
                ranges: Some(expire.numbers),
                ..Self::is("expire")
            },
            _ => return None,
        })
    }

    fn of_retry(retry: &Retry<'a>, held: Self) -> Self {
        let (kind, reason) = match retry.destination {
            Destination::Again => (held.kind, None),
            Destination::DeadLetter { reason } => ("dead_letter", Some(reason)),
        };
        Self {
            kind,
            reason,
            target_subject: Some(retry.target),
            number: Some(retry.number),
            offset: Some(retry.offset),
            due: Some(retry.due),
            attempt: Some(retry.attempt),
            published: retry.payload_sequence,
            ..held
        }
    }
}

/// A fact, and the names that it does not say itself.
pub(crate) struct ActionRow<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) time: Option<Millis>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) target_subject: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) consumer: Option<&'a str>,
    pub(crate) file: &'a str,
    pub(crate) offset: u32,
    pub(crate) said: &'a Said<'a>,
}

impl Row for ActionRow<'_> {
    fn cell(&self, column: Column, written: &mut String) -> Cell<'_> {
        let said = self.said;
        let narrow = |number: Option<u32>| Cell::number(number.map(u64::from));
        match column {
            Column::Sequence => Cell::Number(self.sequence.0),
            Column::Epoch => narrow(self.epoch.map(|epoch| epoch.0)),
            Column::Time => Cell::time(self.time),
            Column::Kind => Cell::Text(said.kind),
            Column::Subject => Cell::text(self.subject),
            Column::TargetSequence => Cell::number(said.target.map(|target| target.0)),
            Column::TargetDue => Cell::time(said.target_due),
            Column::TargetSubject => Cell::text(self.target_subject),
            Column::PublishedSequence => Cell::number(said.published.map(|sequence| sequence.0)),
            Column::Due => Cell::time(said.due),
            Column::DelayMs => Cell::number(said.delay_ms),
            Column::Key => key_cell(said.key, written),
            Column::Group => Cell::text(self.group),
            Column::GroupNumber => narrow(said.group_number.map(|number| number.0)),
            Column::Consumer => Cell::text(self.consumer),
            Column::ConsumerNumber => narrow(said.consumer_number.map(|number| number.0)),
            Column::Number => Cell::number(said.number.map(|number| number.0)),
            Column::PullOffset => Cell::number(said.offset.map(|offset| offset.0)),
            Column::Count => Cell::number(said.ranges.map(count_of)),
            Column::Ranges => said.ranges.map_or(Cell::Null, |ranges| ranges_cell(ranges, written)),
            Column::Attempt => narrow(said.attempt),
            Column::Start => Cell::text(said.start.map(start_word)),
            Column::Name => Cell::text(said.name),
            Column::Reason => Cell::text(said.reason),
            Column::Segment => Cell::Text(self.file),
            Column::Offset => Cell::Number(u64::from(self.offset)),
            _ => Cell::Null,
        }
    }
}

fn start_word(start: GroupStart) -> &'static str {
    match start {
        GroupStart::Earliest => "earliest",
        GroupStart::Latest => "latest",
    }
}

fn count_of(ranges: Ranges<'_>) -> u64 {
    ranges.iter().map(|range| range.count).fold(0, u64::saturating_add)
}

fn ranges_cell<'a>(ranges: Ranges<'_>, written: &mut String) -> Cell<'a> {
    written.push('[');
    for (place, range) in ranges.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        // Writing to a text cannot fail.
        let _ = write!(written, "{comma}[{}, {}]", range.first, range.count);
    }
    written.push(']');
    Cell::Written
}
