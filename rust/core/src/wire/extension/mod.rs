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

/// Introduces the client, and returns the limits.
pub const HELLO: i16 = 200;
/// Asks whether the peer is alive.
pub const PING: i16 = 201;
/// Stores a batch.
pub const PUBLISH: i16 = 202;
/// Cancels messages by their receipts.
pub const CANCEL: i16 = 203;
/// Subscribes.
pub const SUBSCRIBE: i16 = 204;
/// Lets the server send more messages.
pub const CREDIT: i16 = 205;
/// Messages for a subscription; the server sends it without a request.
pub const DELIVER: i16 = 206;
/// Acknowledges messages.
pub const ACKNOWLEDGE: i16 = 207;
/// Gives messages back.
pub const GIVE_BACK: i16 = 208;
/// Dead-letters messages.
pub const PUT_AWAY: i16 = 209;
/// Waits until earlier settlements are durable.
pub const FLUSH: i16 = 210;
/// Ends a subscription.
pub const UNSUBSCRIBE: i16 = 211;
/// Moves messages to another time by their receipts.
pub const MOVE: i16 = 212;
/// Stores a batch with terms: keys, or ids that identify repetitions.
pub const PUBLISH_ON_TERMS: i16 = 213;
/// Cancels the message that has a key.
pub const CANCEL_KEY: i16 = 214;
/// Moves the message that has a key.
pub const MOVE_KEY: i16 = 215;
/// Begins a series.
pub const RECUR: i16 = 216;
/// Ends a series.
pub const END_RECURRING: i16 = 217;
/// Adopts staged runs.
pub const LOAD: i16 = 218;
/// The state of the store.
pub const STATUS: i16 = 220;
/// All groups.
pub const GROUPS: i16 = 221;
/// All subjects.
pub const SUBJECTS: i16 = 222;
/// Makes a group.
pub const START_GROUP: i16 = 223;
/// Makes a group begin again.
pub const RESET_GROUP: i16 = 224;
/// Removes a group.
pub const REMOVE_GROUP: i16 = 225;
/// Dead letters of a group.
pub const DEAD_LETTERS: i16 = 226;
/// Redrives dead letters.
pub const REDRIVE: i16 = 227;
/// Expires ready messages that no consumer took.
pub const EXPIRE: i16 = 228;
/// The consumers of a group.
pub const CONSUMERS: i16 = 229;
/// Ends a named consumer.
pub const END_CONSUMER: i16 = 230;
/// Cancels the messages that have these keys.
pub const CANCEL_KEYS: i16 = 231;
/// Moves the messages that have these keys.
pub const MOVE_KEYS: i16 = 232;
/// The clock of the store, and why dispatch is held.
pub const CLOCK: i16 = 233;
/// Accepts the step of the wall clock that holds dispatch.
pub const ACCEPT_CLOCK: i16 = 234;
/// The states of messages, by their receipts.
pub const LOOK_UP: i16 = 240;
/// A page of the pending messages.
pub const PENDING: i16 = 241;
/// The number of pending messages of each subject.
pub const PENDING_COUNTS: i16 = 242;
/// The receipt of the message that has a key.
pub const LOOK_UP_KEY: i16 = 243;
/// The due messages of each minute or second.
pub const FORECAST: i16 = 244;
/// A piece of the list of series.
pub const RECURRING: i16 = 245;
