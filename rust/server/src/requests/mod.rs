//! Requests of both protocols, except those of subscriptions and of QMQ's consumers.
//!
//! In: a decoded request, with the responder that answers it once. Out: calls of the store, and an answer.
//! Read `dispatch` (which handler serves which command) and `responder`, then the handler of a command: `publish` (with
//! `publish_queue`),
//! `administration`, `pending`, `by_key`, `recurring`, `loads`, `consumer_management`, `clock`.

pub(crate) mod administration;
pub(crate) mod by_key;
pub(crate) mod clock;
pub(crate) mod consumer_management;
pub(crate) mod dispatch;
pub(crate) mod loads;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod publish_queue;
pub(crate) mod recurring;
pub(crate) mod responder;
