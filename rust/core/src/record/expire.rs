//! Expiry: the time from which a message is of no use, and expire (kind 18), the fact that ends messages.
//!
//! A message that has an expiry says so in its record (see [`super::message`]). An operator may also end ready messages
//! that no consumer took for too long.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::queue::{NumberRange, Ranges, range_bytes};
use super::read_struct;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::units::{GroupNumber, Millis, SubjectNumber};

/// The reason of a dead letter whose message had expired.
pub const EXPIRED_REASON: &str = "expired";

/// The effect of an expiry on a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExpiry {
    /// It is finished.
    #[default]
    Drop,
    /// It becomes a dead letter of each group that was to receive it, with the reason [`EXPIRED_REASON`].
    DeadLetter,
}

impl OnExpiry {
    /// Its number in facts, checkpoints and requests, where 0 means that a message does not expire.
    pub fn number(self) -> u8 {
        match self {
            Self::Drop => 1,
            Self::DeadLetter => 2,
        }
    }

    /// The one with this number.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// Its word in tables, loads and the Python API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// The one with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    const ALL: [Self; 2] = [Self::Drop, Self::DeadLetter];
}

/// When a message expires, as its publisher says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expires {
    /// So many milliseconds after its due time.
    After(u64),
    /// At this time.
    At(Millis),
}

impl Expires {
    /// The time at which a message expires that is due at this time.
    pub fn at(self, due: Millis) -> Millis {
        match self {
            Self::After(after_ms) => due.plus(after_ms),
            Self::At(time) => time,
        }
    }
}

/// When each message of a series expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiresAfter {
    /// So many milliseconds after its due time.
    pub after_ms: u64,
    /// The effect.
    pub then: OnExpiry,
}

impl ExpiresAfter {
    /// The expiry of a message that is due at this time.
    pub fn of(self, due: Millis) -> Expiry {
        Expiry { at: due.plus(self.after_ms), then: self.then }
    }

    /// Checks that it is more than nothing, and fits.
    ///
    /// # Errors
    /// `InvalidArgument` naming `expires_after`.
    pub fn check(self) -> Result<()> {
        if (1..=EXPIRES_AFTER_MS_MAX).contains(&self.after_ms) {
            return Ok(());
        }
        let expected = format!("1 to {EXPIRES_AFTER_MS_MAX} ms");
        Err(Error::InvalidArgument { argument: "expires_after", expected, found: format!("{} ms", self.after_ms) })
    }
}

/// The time from which a message is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// From this time on, no consumer receives the message.
    pub at: Millis,
    /// The effect.
    pub then: OnExpiry,
}

impl Expiry {
    /// True if the message must not be handed over at the trusted time `now`: it expires at the very millisecond that
    /// it names. This is the only place that judges an expiry.
    #[inline]
    pub fn is_over(self, now: Millis) -> bool {
        if is_on(Planted::ExpiredOneTickLate) {
            return now > self.at;
        }
        now >= self.at && !is_on(Planted::ExpiredHandedOver)
    }

    /// Checks that a message which is due at `due` may expire then: no message expires before it can be handed over.
    ///
    /// # Errors
    /// `InvalidArgument` naming `expires`.
    pub fn check(self, due: Millis) -> Result<()> {
        if self.at > due && self.at <= EXPIRES_MAX {
            return Ok(());
        }
        let (expected, found) = if self.at > due {
            (format!("at most {EXPIRES_MAX} ms since 1970"), self.at.to_string())
        } else {
            let early_ms = due.since(self.at);
            let found = if early_ms == 0 { "the due time".to_owned() } else { format!("{early_ms} ms before it") };
            ("a time after the due time".to_owned(), found)
        };
        Err(Error::InvalidArgument { argument: "expires", expected, found })
    }
}

/// The latest time at which a message may expire. It is later than every due time.
pub const EXPIRES_MAX: Millis = Millis(1 << 49);
/// The longest time after which a message of a series expires.
pub const EXPIRES_AFTER_MS_MAX: u64 = 1 << 48;

/// The kind byte of an expire.
pub const KIND_EXPIRE: u8 = 18;
/// Flag of an expire and of a retry that makes a dead letter: a consumer may have received the messages under the
/// assignments that end here, and they had expired when it was to receive them once more.
pub const FLAG_RECEIVED: u8 = 1;

pub(super) const fn received_flag(received: bool) -> u8 {
    if received { FLAG_RECEIVED } else { 0 }
}

/// Fixed part of an expire. The payload is ranges of ready numbers.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `subject` |
/// | 4 | 4 | `group`: the group that was to receive the messages when they had expired by their own time; 0 for an operator |
/// | 8 | 8 | `due_before_ms` of an operator; else 0 |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpireFixed {
    subject: U32,
    group: U32,
    due_before_ms: U64,
}
const _: () = assert!(size_of::<ExpireFixed>() == 16);

/// Why ready messages expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpiredBy {
    /// An operator ended messages that were due before this time.
    Operator {
        /// All were due before.
        due_before: Millis,
    },
    /// They were about to be handed to a consumer of this group, and had expired by their own time.
    Themselves {
        /// The group.
        group: GroupNumber,
        /// The consumer may have received them under these assignments, before they expired.
        received: bool,
    },
}

impl ExpiredBy {
    /// The fields of the fixed part: the group, or 0, and the due time, or 0.
    pub fn fields(self) -> (GroupNumber, Millis) {
        match self {
            Self::Operator { due_before } => (GroupNumber(0), due_before),
            Self::Themselves { group, .. } => (group, Millis(0)),
        }
    }
}

/// Finishes these ready messages of the subject for every group that does not hold them, and for later groups. A
/// message that expired by its own time is also finished for the group that was to receive it, whose consumer holds it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Expire<'a> {
    pub subject: SubjectNumber,
    pub by: ExpiredBy,
    pub numbers: Ranges<'a>,
}

/// Appends an expire of these numbers, in order.
pub fn encode_expire(out: &mut Vec<u8>, subject: SubjectNumber, by: ExpiredBy, numbers: &[NumberRange]) {
    let (group, due_before) = by.fields();
    let fixed =
        ExpireFixed { subject: U32::new(subject.0), group: U32::new(group.0), due_before_ms: U64::new(due_before.0) };
    let received = matches!(by, ExpiredBy::Themselves { received: true, .. });
    encode_record(out, KIND_EXPIRE, received_flag(received), fixed.as_bytes(), &[&range_bytes(numbers)]);
}

/// Reads an expire.
pub fn decode_expire<'a>(record: &RawRecord<'a>) -> Option<Expire<'a>> {
    let fixed: ExpireFixed = read_struct(record.fixed)?;
    let by = match GroupNumber(fixed.group.get()) {
        GroupNumber(0) => ExpiredBy::Operator { due_before: Millis(fixed.due_before_ms.get()) },
        group => ExpiredBy::Themselves { group, received: record.header.flags & FLAG_RECEIVED != 0 },
    };
    Some(Expire { subject: SubjectNumber(fixed.subject.get()), by, numbers: Ranges::new(record.payload)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{header::read_record, seal_record};
    use crate::units::Sequence;

    #[test]
    fn a_message_expires_at_the_millisecond_that_it_names_and_not_before() {
        let expiry = Expiry { at: Millis(5), then: OnExpiry::Drop };
        assert_eq!([4, 5, 6].map(|now| expiry.is_over(Millis(now))), [false, true, true]);
    }

    #[test]
    fn no_message_expires_when_it_is_due_or_before() {
        let at = |at| Expiry { at: Millis(at), then: OnExpiry::DeadLetter }.check(Millis(5));
        assert!(at(6).is_ok() && at(EXPIRES_MAX.0).is_ok());
        for refused in [0, 4, 5, EXPIRES_MAX.0 + 1] {
            assert!(matches!(at(refused), Err(Error::InvalidArgument { argument: "expires", .. })), "{refused}");
        }
    }

    #[test]
    fn who_ended_messages_reads_back() {
        let themselves = |received| ExpiredBy::Themselves { group: GroupNumber(7), received };
        for by in [ExpiredBy::Operator { due_before: Millis(0) }, themselves(false), themselves(true)] {
            let mut bytes = Vec::new();
            encode_expire(&mut bytes, SubjectNumber(3), by, &[NumberRange { first: 1, count: 2 }]);
            seal_record(&mut bytes, Sequence(9)).unwrap();
            let read = read_record(&bytes, Sequence(9)).unwrap();
            let read = decode_expire(&read).unwrap();
            assert_eq!((read.subject, read.by, read.numbers.iter().count()), (SubjectNumber(3), by, 1));
        }
    }
}
