//! Requests and subscriptions as callers name them.

use bytes::Bytes;

pub(crate) const CLIENT_CLOSED: &str = "the client is closed";
pub(crate) const SUBSCRIPTION_CLOSED: &str = "the subscription is closed";

/// Identifies a subscription of a client over all its connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(pub u64);

/// An encoded request, and what a lost connection means for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The command.
    pub command: i16,
    /// The body.
    pub body: Bytes,
    /// It changes nothing.
    pub reads: bool,
    /// If the connection is lost before the answer came, it is sent again on the next one.
    pub retry: bool,
    /// How long after it was first sent it may be repeated.
    pub retry_for_ms: u64,
}

impl Request {
    /// A request that is not repeated.
    pub fn new(command: i16, body: impl Into<Bytes>) -> Self {
        Self { command, body: body.into(), reads: false, retry: false, retry_for_ms: u64::MAX }
    }

    /// The same, for a request that changes nothing.
    pub fn reading(self) -> Self {
        Self { reads: true, ..self }
    }
}

/// A report to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// A name for programs.
    pub action: &'static str,
    /// The text.
    pub text: String,
}

/// Identifies a request of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ticket(pub u64);

/// A subscription that is being closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closing {
    /// The request that ends it at the server; `None` without a connection.
    pub ticket: Option<Ticket>,
}
