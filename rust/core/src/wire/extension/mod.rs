//! delaymq's own commands, from 200 on, in the frames of QMQ: requests that QMQ's commands cannot express.
//! `docs/protocol.md` describes their order.
//!
//! A request is answered with the code 0 and the body of its command, or with the code of an [`errors::ErrorCode`]
//! and a body with details. Integers are big-endian. A `str` is QMQ's; a `blob` is an unsigned 32-bit length and
//! bytes.

pub mod administration;
pub mod by_key;
pub mod clock;
pub mod consume;
pub mod consumers;
pub mod dead_letters;
pub mod errors;
pub mod filters;
pub mod forecast;
pub mod hello;
pub mod key_fate;
pub mod load;
pub mod moves;
pub mod pending;
pub mod proof;
pub mod publish;
pub mod recurring;
pub mod request;
pub mod settle;
pub mod start;
pub mod status;
pub mod terms;

#[cfg(test)]
mod tests;

/// The version of these layouts, as sent in the frame.
pub const EXTENSION_VERSION: i16 = 1;

/// The numbers that commands of delaymq's own may have.
pub const OWN_COMMANDS: std::ops::Range<i16> = 200..300;

/// Messages for a subscription; the server sends it without a request.
pub const DELIVER: i16 = 206;

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
