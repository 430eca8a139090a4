//! The messages of a ledger, and what groups were given of them.

use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, Sequence, SubjectNumber};

use crate::ledger::index::Target;

/// A time that may not be known, in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Time(u64);

impl Time {
    pub(crate) const NONE: Self = Self(u64::MAX);

    pub(crate) fn of(time: Option<Millis>) -> Self {
        time.map_or(Self::NONE, |time| Self(time.0))
    }

    pub(crate) fn get(self) -> Option<Millis> {
        (self != Self::NONE).then_some(Millis(self.0))
    }
}

/// Why a ready message is finished for all groups that do not have it, those to come included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    No,
    Expired,
    Voided,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `None` if it is not known of which message the entry is.
    pub(crate) sequence: Option<Sequence>,
    /// The entry that it has now.
    pub(crate) entry: Sequence,
    pub(crate) due: Time,
    pub(crate) published: Time,
    pub(crate) ready: Time,
    pub(crate) number: Option<u64>,
    /// When it was cancelled, voided or expired.
    pub(crate) ended: Time,
    pub(crate) subject: SubjectNumber,
    pub(crate) first_delivery: Option<u32>,
    /// Where its id is, among all.
    pub(crate) id: (u32, u32),
    pub(crate) gone: Gone,
    pub(crate) is_ready: bool,
    /// Only a command mentions it, which may have come too late.
    pub(crate) is_doubtful: bool,
}

pub(crate) fn slot_of(subject: SubjectNumber, entry: Sequence) -> Slot {
    Slot {
        sequence: None,
        entry,
        due: Time::NONE,
        published: Time::NONE,
        ready: Time::NONE,
        number: None,
        ended: Time::NONE,
        subject,
        first_delivery: None,
        id: (0, 0),
        gone: Gone::No,
        is_ready: false,
        is_doubtful: false,
    }
}

/// What became of a message for a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// No consumer has it.
    Waits,
    Held(ConsumerNumber, PullOffset),
    Acknowledged,
    /// Its filters did not let it pass.
    Filtered,
    DeadLetter,
    ExpiredDeadLetter,
    Expired,
    Voided,
    Cancelled,
}

/// A message and a group that was given it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) next: Option<u32>,
    pub(crate) group: GroupNumber,
    pub(crate) attempts: u32,
    pub(crate) delivered: Time,
    /// It was given before the log begins.
    pub(crate) is_older: bool,
    pub(crate) ended: Time,
    /// The entry of its last retry, and that entry's subject, if there is one.
    pub(crate) retry: Option<(Sequence, SubjectNumber)>,
    /// The number that this entry got.
    pub(crate) retry_number: Option<u64>,
    pub(crate) word: Word,
}

impl Delivery {
    /// Whether a number that was found for it is that of its entry now.
    pub(crate) fn is_under(&self, target: Target, number: u64) -> bool {
        match target {
            Target::Slot(_) => self.retry.is_none(),
            Target::Delivery(_) => self.retry_number == Some(number),
        }
    }

    pub(crate) fn ends(&mut self, word: Word, time: Time) {
        (self.word, self.ended) = (word, time);
    }

    /// It was assigned, but the consumer did not receive it: that was no attempt.
    pub(crate) fn was_kept_back(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
        if self.attempts == 0 {
            self.delivered = Time::NONE;
        }
    }

    /// It waits again, under another entry.
    pub(crate) fn goes_on(&mut self, entry: Sequence, subject: SubjectNumber) {
        (self.word, self.ended) = (Word::Waits, Time::NONE);
        (self.retry, self.retry_number) = (Some((entry, subject)), None);
    }
}

pub(crate) fn found(slot: &Slot, deliveries: &[Delivery], group: GroupNumber) -> Option<u32> {
    let mut next = slot.first_delivery;
    while let Some(place) = next {
        let delivery = deliveries.get(place as usize)?;
        if delivery.group == group {
            return Some(place);
        }
        next = delivery.next;
    }
    None
}

/// The delivery of a message to a group; created if there is none.
pub(crate) fn delivery_to(slot: &mut Slot, deliveries: &mut Vec<Delivery>, group: GroupNumber) -> u32 {
    if let Some(there) = found(slot, deliveries, group) {
        return there;
    }
    let place = u32::try_from(deliveries.len()).unwrap_or(u32::MAX);
    deliveries.push(Delivery {
        next: slot.first_delivery,
        group,
        attempts: 0,
        delivered: Time::NONE,
        is_older: false,
        ended: Time::NONE,
        retry: None,
        retry_number: None,
        word: Word::Waits,
    });
    slot.first_delivery = Some(place);
    place
}
