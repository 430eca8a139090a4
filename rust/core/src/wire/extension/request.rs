//! The requests of delaymq's own commands: their numbers and names, and what reads and writes each.

use bytes::BufMut;

use super::administration::{Expire, GroupAt, GroupName, Listing, Redrive};
use super::by_key::{CancelKeys, MoveKeys};
use super::consume::{Credit, Subscribe};
use super::consumers::Consumers;
use super::dead_letters::DeadLetters;
use super::forecast::ForecastAsked;
use super::hello::{Hello, put_ping, read_ping};
use super::load::LoadAsked;
use super::moves::{put_moves, read_moves};
use super::pending::{CountsAsked, PendingAsked};
use super::publish::{DueTime, Publish, PublishWriter, put_receipts, read_receipts};
use super::recurring::{RecurAsked, SeriesAsked, SeriesName};
use super::settle::{Acknowledge, GiveBack, PutAway};
use super::terms::{
    KeyAsked, PublishOnTerms, TermsWriter, put_command_id, put_key_move, read_command_id, read_key_move,
};
use crate::error::Result;
use crate::store::Receipt;
use crate::wire::malformed::Read;
use crate::wire::qmq::pull::ConsumerName;
use crate::wire::reader::Reader;

/// Makes a constant of each command, and the table of all.
macro_rules! commands {
    ($($(#[doc = $words:literal])+ $command:ident = $number:literal, $name:literal;)+) => {
        $($(#[doc = $words])+ pub const $command: i16 = $number;)+

        /// The commands of requests, and their names in metrics.
        pub const COMMANDS: [(i16, &str); [$($number),+].len()] = [$(($command, $name)),+];
    };
}

commands! {
    /// Introduces the client, and returns the limits.
    HELLO = 200, "hello";
    /// Asks whether the peer is alive.
    PING = 201, "ping";
    /// Stores a batch.
    PUBLISH = 202, "publish";
    /// Cancels messages by their receipts.
    CANCEL = 203, "cancel";
    /// Subscribes.
    SUBSCRIBE = 204, "subscribe";
    /// Lets the server send more messages.
    CREDIT = 205, "credit";
    /// Acknowledges messages.
    ACKNOWLEDGE = 207, "acknowledge";
    /// Gives messages back.
    GIVE_BACK = 208, "give_back";
    /// Dead-letters messages.
    PUT_AWAY = 209, "put_away";
    /// Waits until earlier settlements are durable.
    FLUSH = 210, "flush";
    /// Ends a subscription.
    UNSUBSCRIBE = 211, "unsubscribe";
    /// Moves messages to another time by their receipts.
    MOVE = 212, "move";
    /// Stores a batch with terms: keys, or ids that identify repetitions.
    PUBLISH_ON_TERMS = 213, "publish_on_terms";
    /// Cancels the message that has a key.
    CANCEL_KEY = 214, "cancel_key";
    /// Moves the message that has a key.
    MOVE_KEY = 215, "move_key";
    /// Begins a series.
    RECUR = 216, "recur";
    /// Ends a series.
    END_RECURRING = 217, "end_recurring";
    /// Adopts staged runs.
    LOAD = 218, "load";
    /// The state of the store.
    STATUS = 220, "status";
    /// All groups.
    GROUPS = 221, "groups";
    /// All subjects.
    SUBJECTS = 222, "subjects";
    /// Makes a group.
    START_GROUP = 223, "start_group";
    /// Makes a group begin again.
    RESET_GROUP = 224, "reset_group";
    /// Removes a group.
    REMOVE_GROUP = 225, "remove_group";
    /// Dead letters of a group.
    DEAD_LETTERS = 226, "dead_letters";
    /// Redrives dead letters.
    REDRIVE = 227, "redrive";
    /// Expires ready messages that no consumer took.
    EXPIRE = 228, "expire";
    /// The consumers of a group.
    CONSUMERS = 229, "consumers";
    /// Ends a named consumer.
    END_CONSUMER = 230, "end_consumer";
    /// Cancels the messages that have these keys.
    CANCEL_KEYS = 231, "cancel_keys";
    /// Moves the messages that have these keys.
    MOVE_KEYS = 232, "move_keys";
    /// The clock of the store, and why dispatch is held.
    CLOCK = 233, "clock";
    /// Accepts the step of the wall clock that holds dispatch.
    ACCEPT_CLOCK = 234, "accept_clock";
    /// The states of messages, by their receipts.
    LOOK_UP = 240, "look_up";
    /// A page of the pending messages.
    PENDING = 241, "pending";
    /// The number of pending messages of each subject.
    PENDING_COUNTS = 242, "pending_counts";
    /// The receipt of the message that has a key.
    LOOK_UP_KEY = 243, "look_up_key";
    /// The due messages of each minute or second.
    FORECAST = 244, "forecast";
    /// A piece of the list of series.
    RECURRING = 245, "recurring";
}

/// A request, borrowed from its frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnRequest<'a> {
    /// A client introduces itself.
    Hello(Hello<'a>),
    /// Answered with the same bytes.
    Ping(&'a [u8]),
    /// A batch.
    Publish(Publish<'a>),
    /// A batch with terms.
    PublishOnTerms(PublishOnTerms<'a>),
    /// Cancels messages.
    Cancel(Vec<Receipt>),
    /// Moves messages to other due times.
    Move(Vec<(Receipt, DueTime)>),
    /// Cancels the message that has a key.
    CancelKey(KeyAsked<'a>, Option<&'a str>),
    /// Moves the message that has a key.
    MoveKey(KeyAsked<'a>, DueTime, Option<&'a str>),
    /// Cancels the messages that have these keys.
    CancelKeys(CancelKeys<'a>),
    /// Moves the messages that have these keys.
    MoveKeys(MoveKeys<'a>),
    /// Subscribes.
    Subscribe(Subscribe<'a>),
    /// Lets the server send more messages.
    Credit(Credit),
    /// Acknowledges messages.
    Acknowledge(Acknowledge),
    /// Gives messages back.
    GiveBack(GiveBack),
    /// Dead-letters messages.
    PutAway(PutAway<'a>),
    /// Waits until the earlier settlements of this subscription are durable.
    Flush(u32),
    /// Ends this subscription.
    Unsubscribe(u32),
    /// The state of the store.
    Status,
    /// A piece of the list of groups.
    Groups(Listing),
    /// A piece of the list of subjects.
    Subjects(Listing),
    /// Makes a group.
    StartGroup(GroupAt<'a>),
    /// Makes a group begin again.
    ResetGroup(GroupAt<'a>),
    /// Removes a group.
    RemoveGroup(GroupName<'a>),
    /// Dead letters of a group.
    DeadLetters(DeadLetters<'a>),
    /// Redrives dead letters.
    Redrive(Redrive<'a>),
    /// Expires ready messages.
    Expire(Expire<'a>),
    /// A piece of the list of a group's consumers.
    Consumers(Consumers<'a>),
    /// Ends a named consumer.
    EndConsumer(ConsumerName<'a>),
    /// The clock of the store.
    Clock,
    /// Accepts the step of the wall clock that is so many milliseconds ahead.
    AcceptClock(u64),
    /// The states of messages.
    LookUp(Vec<Receipt>),
    /// A page of the pending messages.
    Pending(PendingAsked<'a>),
    /// A piece of the numbers of pending messages by subject.
    PendingCounts(CountsAsked<'a>),
    /// The receipt of the message that has a key.
    LookUpKey(KeyAsked<'a>),
    /// A piece of the forecast.
    Forecast(ForecastAsked<'a>),
    /// Begins a series.
    Recur(RecurAsked<'a>),
    /// Ends a series.
    EndRecurring(SeriesName<'a>),
    /// A piece of the list of series.
    Recurring(SeriesAsked<'a>),
    /// Adopts staged runs.
    Load(LoadAsked<'a>),
}

impl<'a> OwnRequest<'a> {
    /// Reads the body of a request; `None` if the command is unknown.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(command: i16, body: &'a [u8]) -> Read<Option<Self>> {
        let reader = &mut Reader::new(body);
        let request = match command {
            HELLO => Self::Hello(Hello::read(reader)?),
            PING => Self::Ping(read_ping(reader)?),
            PUBLISH => Self::Publish(Publish::read(reader)?),
            PUBLISH_ON_TERMS => Self::PublishOnTerms(PublishOnTerms::read(reader)?),
            CANCEL => Self::Cancel(read_receipts(reader)?),
            MOVE => Self::Move(read_moves(reader)?),
            CANCEL_KEY => Self::CancelKey(KeyAsked::read(reader)?, read_command_id(reader)?),
            MOVE_KEY => {
                let (asked, due) = read_key_move(reader)?;
                Self::MoveKey(asked, due, read_command_id(reader)?)
            }
            CANCEL_KEYS => Self::CancelKeys(CancelKeys::read(reader)?),
            MOVE_KEYS => Self::MoveKeys(MoveKeys::read(reader)?),
            SUBSCRIBE => Self::Subscribe(Subscribe::read(reader)?),
            CREDIT => Self::Credit(Credit::read(reader)?),
            ACKNOWLEDGE => Self::Acknowledge(Acknowledge::read(reader)?),
            GIVE_BACK => Self::GiveBack(GiveBack::read(reader)?),
            PUT_AWAY => Self::PutAway(PutAway::read(reader)?),
            FLUSH => Self::Flush(reader.u32("subscription")?),
            UNSUBSCRIBE => Self::Unsubscribe(reader.u32("subscription")?),
            STATUS => Self::Status,
            GROUPS => Self::Groups(Listing::read(reader)?),
            SUBJECTS => Self::Subjects(Listing::read(reader)?),
            START_GROUP => Self::StartGroup(GroupAt::read(reader)?),
            RESET_GROUP => Self::ResetGroup(GroupAt::read(reader)?),
            REMOVE_GROUP => Self::RemoveGroup(GroupName::read(reader)?),
            DEAD_LETTERS => Self::DeadLetters(DeadLetters::read(reader)?),
            REDRIVE => Self::Redrive(Redrive::read(reader)?),
            EXPIRE => Self::Expire(Expire::read(reader)?),
            CONSUMERS => Self::Consumers(Consumers::read(reader)?),
            END_CONSUMER => Self::EndConsumer(ConsumerName::read(reader)?),
            CLOCK => Self::Clock,
            ACCEPT_CLOCK => Self::AcceptClock(reader.u64("ahead_ms")?),
            LOOK_UP => Self::LookUp(read_receipts(reader)?),
            PENDING => Self::Pending(PendingAsked::read(reader)?),
            PENDING_COUNTS => Self::PendingCounts(CountsAsked::read(reader)?),
            LOOK_UP_KEY => Self::LookUpKey(KeyAsked::read(reader)?),
            FORECAST => Self::Forecast(ForecastAsked::read(reader)?),
            RECUR => Self::Recur(RecurAsked::read(reader)?),
            END_RECURRING => Self::EndRecurring(SeriesName::read(reader)?),
            RECURRING => Self::Recurring(SeriesAsked::read(reader)?),
            LOAD => Self::Load(LoadAsked::read(reader)?),
            _ => return Ok(None),
        };
        reader.finish("request").map(|()| Some(request))
    }

    /// Appends the body of the request, as [`Self::read`] reads it.
    ///
    /// # Errors
    /// Those of its encoder; `TooLarge` or `InvalidArgument` for a batch that the store would refuse.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Hello(hello) => hello.put(out),
            Self::Ping(bytes) => put_ping(out, bytes),
            Self::Publish(batch) => written(batch)?.put(out, batch.wants_receipts),
            Self::PublishOnTerms(PublishOnTerms { publish, terms }) => {
                let mut writer = TermsWriter::default();
                terms.iter().try_for_each(|asked| writer.push(asked))?;
                writer.put(out, &written(publish)?, publish.wants_receipts)
            }
            Self::LookUpKey(asked) => asked.put(out),
            Self::CancelKey(asked, id) => asked.put(out).and_then(|()| put_command_id(out, *id)),
            Self::MoveKey(asked, due, id) => put_key_move(out, asked, *due).and_then(|()| put_command_id(out, *id)),
            Self::CancelKeys(asked) => asked.put(out),
            Self::MoveKeys(asked) => asked.put(out),
            Self::Cancel(receipts) | Self::LookUp(receipts) => put_receipts(out, receipts.iter().copied()),
            Self::Move(moves) => put_moves(out, moves),
            Self::Subscribe(subscribe) => subscribe.put(out),
            Self::Credit(credit) => {
                credit.put(out);
                Ok(())
            }
            Self::Acknowledge(ranges) => ranges.put(out),
            Self::GiveBack(messages) => messages.put(out),
            Self::PutAway(messages) => messages.put(out),
            Self::Flush(subscription) | Self::Unsubscribe(subscription) => {
                out.put_u32(*subscription);
                Ok(())
            }
            Self::Status | Self::Clock => Ok(()),
            Self::Groups(listing) | Self::Subjects(listing) => {
                listing.put(out);
                Ok(())
            }
            Self::StartGroup(at) | Self::ResetGroup(at) => at.put(out),
            Self::RemoveGroup(name) => name.put(out),
            Self::DeadLetters(letters) => letters.put(out),
            Self::Redrive(redrive) => redrive.put(out),
            Self::Expire(expire) => expire.put(out),
            Self::Consumers(consumers) => consumers.put(out),
            Self::EndConsumer(name) => name.put(out),
            Self::AcceptClock(ahead_ms) => {
                out.put_u64(*ahead_ms);
                Ok(())
            }
            Self::Pending(asked) => asked.put(out),
            Self::PendingCounts(asked) => asked.put(out),
            Self::Forecast(asked) => asked.put(out),
            Self::Recur(asked) => asked.put(out),
            Self::EndRecurring(name) => name.put(out),
            Self::Recurring(asked) => asked.put(out),
            Self::Load(asked) => asked.put(out),
        }
    }
}

fn written(batch: &Publish<'_>) -> Result<PublishWriter> {
    let mut writer = PublishWriter::default();
    for message in &batch.messages {
        writer.push(message.subject, message.due, message.meta, message.body)?;
    }
    Ok(writer)
}
