//! Every kind of fact in one enum, so that a new kind does not compile until each place handles it.

use super::adopt::{Adopt, KIND_ADOPT, decode_adopt};
use super::attach::{Attach, KIND_ATTACH, decode_attach};
use super::command::{
    Cancel, EpochStart, KIND_CANCEL, KIND_EPOCH_START, KIND_MOVE, KIND_VOID, Move, Void, decode_cancel,
    decode_epoch_start, decode_move, decode_void,
};
use super::expire::{Expire, KIND_EXPIRE, decode_expire};
use super::header::RawRecord;
use super::message::{KIND_MESSAGE, Message, decode_message};
use super::name::{
    GroupEnd, GroupStart, KIND_CONSUMER, KIND_CONSUMER_END, KIND_GROUP, KIND_GROUP_END, KIND_GROUP_RESET, KIND_SUBJECT,
    decode_consumer, decode_consumer_end, decode_group, decode_group_end, decode_group_reset, decode_subject,
};
use super::queue::{
    Acknowledge, Assign, KIND_ACKNOWLEDGE, KIND_ASSIGN, KIND_PASS_OVER, KIND_RESERVE, PassOver, Reserve,
    decode_acknowledge, decode_assign, decode_pass_over, decode_reserve,
};
use super::ready::{KIND_READY, ReadyList, decode_ready};
use super::recurring::{KIND_OCCURRENCE, KIND_RECUR, Occurrence, Recur, decode_occurrence, decode_recur};
use super::retry::{KIND_REDRIVE, KIND_RETRY, Redrive, Retry, decode_redrive, decode_retry};
use super::terms::{ByKey, KIND_BY_KEY, KIND_TERMS, KeyCommand, Terms, decode_by_key, decode_terms};
use crate::units::{ConsumerNumber, DueKey, GroupNumber, Millis, SubjectNumber};

/// A decoded record.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is documented where its bytes are")]
pub enum Fact<'a> {
    Message(Message<'a>),
    Cancel(Cancel),
    Move(Move),
    Ready(ReadyList<'a>),
    Subject { number: SubjectNumber, name: &'a str },
    Group { subject: SubjectNumber, start: GroupStart, name: &'a str },
    GroupEnd { group: GroupNumber, end: GroupEnd },
    GroupReset { group: GroupNumber, start: GroupStart },
    Consumer { group: GroupNumber, name: &'a str },
    ConsumerEnd { group: GroupNumber, consumer: ConsumerNumber },
    Attach(Attach<'a>),
    Reserve(Reserve),
    Assign(Assign<'a>),
    Acknowledge(Acknowledge<'a>),
    PassOver(PassOver<'a>),
    Retry(Retry<'a>),
    Redrive(Redrive),
    Expire(Expire<'a>),
    Void(Void),
    EpochStart(EpochStart),
    Terms(Terms<'a>),
    ByKey(ByKey),
    Recur(Recur<'a>),
    Occurrence(Occurrence),
    Adopt(Adopt<'a>),
}

/// The move that a fact makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// The entry that ends.
    pub target: DueKey,
    /// The due time of the new entry.
    pub due: Millis,
    /// The subject of both.
    pub subject: SubjectNumber,
}

impl Fact<'_> {
    /// The move that this fact makes when applied, by receipt or by key; `None` if it is no move.
    pub fn as_move(&self) -> Option<Moving> {
        match *self {
            Self::Move(Move { target, due, subject, .. }) => Some(Moving { target, due, subject }),
            Self::ByKey(ByKey { command: KeyCommand::Move { due, .. }, target, subject, .. }) => {
                Some(Moving { target: target?, due, subject })
            }
            _ => None,
        }
    }
}

/// Makes both [`KINDS`] and [`decode`] from one list, so that they have the same kinds.
macro_rules! facts_by_kind {
    ($record:ident: $($kind:ident => $decoded:expr,)+) => {
        /// Every kind of record that this release reads, once each.
        pub const KINDS: &[u8] = &[$($kind),+];

        /// Decodes a record whose header was checked. `None`: the kind is unknown or its parts do not fit, which in
        /// a checked record means a newer writer or a defect. The payload of a message is not checked here; the
        /// payload of every other kind must be checked before.
        pub fn decode<'a>($record: &RawRecord<'a>) -> Option<Fact<'a>> {
            match $record.header.kind {
                $($kind => $decoded,)+
                _ => None,
            }
        }
    };
}

facts_by_kind! { record:
    KIND_MESSAGE => decode_message(record).map(Fact::Message),
    KIND_CANCEL => decode_cancel(record).map(Fact::Cancel),
    KIND_READY => decode_ready(record).map(Fact::Ready),
    KIND_SUBJECT => decode_subject(record).map(|(number, name)| Fact::Subject { number, name }),
    KIND_GROUP => decode_group(record).map(|(subject, start, name)| Fact::Group { subject, start, name }),
    KIND_GROUP_END => decode_group_end(record).map(|(group, end)| Fact::GroupEnd { group, end }),
    KIND_GROUP_RESET => decode_group_reset(record).map(|(group, start)| Fact::GroupReset { group, start }),
    KIND_CONSUMER => decode_consumer(record).map(|(group, name)| Fact::Consumer { group, name }),
    KIND_CONSUMER_END => decode_consumer_end(record).map(|(group, consumer)| Fact::ConsumerEnd { group, consumer }),
    KIND_ATTACH => decode_attach(record).map(Fact::Attach),
    KIND_RESERVE => decode_reserve(record).map(Fact::Reserve),
    KIND_ASSIGN => decode_assign(record).map(Fact::Assign),
    KIND_ACKNOWLEDGE => decode_acknowledge(record).map(Fact::Acknowledge),
    KIND_PASS_OVER => decode_pass_over(record).map(Fact::PassOver),
    KIND_RETRY => decode_retry(record).map(Fact::Retry),
    KIND_REDRIVE => decode_redrive(record).map(Fact::Redrive),
    KIND_EXPIRE => decode_expire(record).map(Fact::Expire),
    KIND_VOID => decode_void(record).map(Fact::Void),
    KIND_EPOCH_START => decode_epoch_start(record).map(Fact::EpochStart),
    KIND_MOVE => decode_move(record).map(Fact::Move),
    KIND_TERMS => decode_terms(record).map(Fact::Terms),
    KIND_BY_KEY => decode_by_key(record).map(Fact::ByKey),
    KIND_RECUR => decode_recur(record).map(Fact::Recur),
    KIND_OCCURRENCE => decode_occurrence(record).map(Fact::Occurrence),
    KIND_ADOPT => decode_adopt(record).map(Fact::Adopt),
}
