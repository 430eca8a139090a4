//! A fact, in the columns of the table `action`.

use std::fmt::Write;

use delaymq_core::record::Fact;
use delaymq_core::record::attach::Attach;
use delaymq_core::record::command::{Cancel, Move, Void};
use delaymq_core::record::expire::ExpiredBy;
use delaymq_core::record::name::{GroupEnd, GroupStart};
use delaymq_core::record::queue::{Acknowledge, Assign, NumberRange, PassOver, Ranges, Reserve};
use delaymq_core::record::recurring::{Occurrence, Recur};
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::record::terms::{ByKey, KeyCommand, NameHash};
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

use crate::read::log_walk::At;
use crate::rows::cells::Cell;
use crate::rows::message_row::key_cell;
use crate::rows::row_batches::Row;
use crate::schema::column::Column;

/// The fields of a fact; `None` if it has no such field.
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
    numbers: Span,
    offsets: Span,
    count: Option<u64>,
    ranges: Option<Ranges<'a>>,
    attempt: Option<u32>,
    start: Option<GroupStart>,
    name: Option<&'a str>,
    reason: Option<&'a str>,
}

/// The least and the greatest of some numbers.
#[derive(Clone, Copy, Default)]
struct Span {
    first: Option<u64>,
    last: Option<u64>,
}

impl Span {
    fn one(number: u64) -> Self {
        Self { first: Some(number), last: Some(number) }
    }

    /// What ends before `end` and begins nobody says where.
    fn before(end: u64) -> Self {
        Self { first: None, last: end.checked_sub(1) }
    }

    fn of(ranges: Ranges<'_>) -> Self {
        let last = |range: NumberRange| range.first.saturating_add(range.count.saturating_sub(1));
        let there = || ranges.iter().filter(|range| range.count > 0);
        Self { first: there().map(|range| range.first).min(), last: there().map(last).max() }
    }
}

impl<'a> Said<'a> {
    /// `None` for a fact that is no action.
    pub(crate) fn of(fact: &Fact<'a>) -> Option<Self> {
        Self::of_entry(fact)
            .or_else(|| Self::of_party(fact))
            .or_else(|| Self::of_delivery(fact))
            .or_else(|| Self::of_order(fact))
    }

    fn is(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    fn about(self, target: DueKey) -> Self {
        Self { target: Some(target.sequence), target_due: Some(target.due), ..self }
    }

    fn starting(self, start: GroupStart) -> Self {
        let numbers = match start {
            GroupStart::Number(number) => Span::one(number.0),
            GroupStart::Unfinished | GroupStart::Latest => self.numbers,
        };
        Self { start: Some(start), numbers, ..self }
    }

    /// What is asked of a pending message, or of a series.
    fn of_entry(fact: &Fact<'a>) -> Option<Self> {
        // 0 names none.
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
                Self { subject: named(subject), numbers: Span::one(number.0), ..Self::is("void") }
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
                Self { subject: Some(subject), group: Some(name), ..Self::is("group").starting(start) }
            }
            Fact::Subject { number, name } => Self { subject: Some(number), name: Some(name), ..Self::is("subject") },
            Fact::GroupEnd { group, end } => {
                let kind = match end {
                    GroupEnd::Alone => "group_end",
                    GroupEnd::WithItsRetries => "group_end_with_retries",
                };
                Self { group_number: Some(group), ..Self::is(kind) }
            }
            Fact::GroupReset { group, start } => {
                Self { group_number: Some(group), ..Self::is("group_reset").starting(start) }
            }
            Fact::Consumer { group, name } => {
                Self { group_number: Some(group), consumer: Some(name), ..Self::is("consumer") }
            }
            Fact::ConsumerEnd { group, consumer } => {
                Self { group_number: Some(group), consumer_number: Some(consumer), ..Self::is("consumer_end") }
            }
            Fact::Attach(Attach { subject, start, group, consumer, .. }) => Self {
                subject: Some(subject),
                group: Some(group),
                consumer: Some(consumer),
                ..Self::is("attach").starting(start)
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
            Fact::Reserve(Reserve { group, consumer, offset_end, number_end }) => {
                let (numbers, offsets) = (Span::before(number_end.0), Span::before(offset_end.0));
                Self { numbers, offsets, ..held("reserve", group, consumer) }
            }
            Fact::Assign(Assign { group, consumer, first_offset, numbers }) => {
                let count = count_of(numbers);
                let last = first_offset.0.checked_add(count).and_then(|end| end.checked_sub(1)).filter(|_| count > 0);
                let offsets = Span { first: last.map(|_| first_offset.0), last };
                let said = Self { ranges: Some(numbers), count: Some(count), ..held("assign", group, consumer) };
                Self { numbers: Span::of(numbers), offsets, ..said }
            }
            Fact::Acknowledge(Acknowledge { group, consumer, offsets, filtered }) => {
                let said = held(if filtered { "filter" } else { "acknowledge" }, group, consumer);
                Self { offsets: Span::of(offsets), ranges: Some(offsets), count: Some(count_of(offsets)), ..said }
            }
            Fact::PassOver(PassOver { group, consumer, numbers }) => {
                let said = held("pass_over", group, consumer);
                Self { numbers: Span::of(numbers), ranges: Some(numbers), count: Some(count_of(numbers)), ..said }
            }
            Fact::Retry(retry) => Self::of_retry(&retry, held("retry", retry.group, retry.consumer)),
            Fact::Redrive(Redrive { group, target, number, due, payload_sequence }) => Self {
                group_number: Some(group),
                target_subject: Some(target),
                numbers: Span::one(number.0),
                due: Some(due),
                published: Some(payload_sequence),
                ..Self::is("redrive")
            },
            Fact::Expire(expire) => Self {
                subject: Some(expire.subject),
                due: match expire.by {
                    ExpiredBy::Operator { due_before } => Some(due_before),
                    ExpiredBy::Themselves { .. } => None,
                },
                group_number: match expire.by {
                    ExpiredBy::Operator { .. } => None,
                    ExpiredBy::Themselves { group, .. } => Some(group),
                },
                numbers: Span::of(expire.numbers),
                count: Some(count_of(expire.numbers)),
                ranges: Some(expire.numbers),
                ..Self::is("expire")
            },
            _ => return None,
        })
    }

    /// What says how other facts are to be taken.
    fn of_order(fact: &Fact<'a>) -> Option<Self> {
        Some(match *fact {
            Fact::Ready(list) => Self { count: Some(list.len() as u64), ..Self::is("ready") },
            Fact::Terms(terms) => Self { count: Some(u64::from(terms.messages)), ..Self::is("terms") },
            Fact::Occurrence(Occurrence { series, after }) => {
                Self { target: Some(series), target_due: Some(after), ..Self::is("occurrence") }
            }
            Fact::Adopt(adopt) => Self { count: Some(u64::from(adopt.rows)), ..Self::is("adopt") },
            Fact::EpochStart(_) => Self::is("epoch_start"),
            _ => return None,
        })
    }

    fn of_retry(retry: &Retry<'a>, held: Self) -> Self {
        let kind = match retry.destination {
            Destination::Again => held.kind,
            Destination::DeadLetter { .. } => "dead_letter",
            Destination::Expired { .. } => "expired_dead_letter",
        };
        Self {
            kind,
            reason: retry.destination.reason(),
            target_subject: Some(retry.target),
            numbers: Span::one(retry.number.0),
            offsets: Span::one(retry.offset.0),
            due: Some(retry.due),
            attempt: Some(retry.attempt),
            published: Some(retry.payload_sequence),
            ..held
        }
    }
}

/// A fact, and the names that it does not say itself.
pub(crate) struct ActionRow<'a> {
    pub(crate) at: At,
    pub(crate) subject: Option<&'a str>,
    pub(crate) target_subject: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) consumer: Option<&'a str>,
    pub(crate) file: &'a str,
    pub(crate) said: &'a Said<'a>,
}

impl Row for ActionRow<'_> {
    fn cell(&self, column: Column, written: &mut String) -> Cell<'_> {
        let said = self.said;
        let narrow = |number: Option<u32>| Cell::number(number.map(u64::from));
        match column {
            Column::Sequence => Cell::Number(self.at.fact.0),
            Column::Epoch => narrow(self.at.epoch.map(|epoch| epoch.0)),
            Column::Time => Cell::time(self.at.trusted),
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
            Column::FirstNumber => Cell::number(said.numbers.first),
            Column::LastNumber => Cell::number(said.numbers.last),
            Column::FirstOffset => Cell::number(said.offsets.first),
            Column::LastOffset => Cell::number(said.offsets.last),
            Column::Count => Cell::number(said.count),
            Column::Ranges => said.ranges.map_or(Cell::Null, |ranges| ranges_cell(ranges, written)),
            Column::Attempt => narrow(said.attempt),
            Column::Start => Cell::text(said.start.map(start_word)),
            Column::Name => Cell::text(said.name),
            Column::Reason => Cell::text(said.reason),
            Column::Segment => Cell::Text(self.file),
            Column::Offset => Cell::Number(u64::from(self.at.location.offset())),
            _ => Cell::Null,
        }
    }
}

fn start_word(start: GroupStart) -> &'static str {
    match start {
        GroupStart::Unfinished => "unfinished",
        GroupStart::Latest => "latest",
        GroupStart::Number(_) => "number",
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
