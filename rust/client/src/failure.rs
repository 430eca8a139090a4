//! Errors of a client: those that a server reported, and those of the connection to it.

use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};

/// The kind of an error that the client itself reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The request may or may not have been executed.
    Ambiguous,
    /// There was no connection; nothing was executed.
    Unreachable,
    /// No answer came in time to a request that changes nothing, or that was not sent.
    TimedOut,
    /// The peer sent bytes that no delaymq server of this version sends.
    Protocol,
    /// The client is closed.
    Closed,
    /// A thread of the client failed.
    Broken,
}

impl Kind {
    /// The name of the exception in `delaymq.errors`.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Ambiguous => "AmbiguousError",
            Self::Unreachable => "Unreachable",
            Self::TimedOut => "TimedOut",
            Self::Protocol => "ProtocolError",
            Self::Closed => "Closed",
            Self::Broken => "StoreError",
        }
    }
}

/// The error of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The server reported it.
    Remote(RemoteError),
    /// The client reports it.
    Local {
        /// Its kind.
        kind: Kind,
        /// Its text.
        words: String,
        /// The reason, for the kinds that have one.
        reason: Option<String>,
        /// The server's error that led to it.
        cause: Option<RemoteError>,
    },
}

impl Failure {
    /// An error of the client without a reason.
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        Self::Local { kind, words: words.into(), reason: None, cause: None }
    }

    /// An error of the client with a reason.
    pub fn with_reason(kind: Kind, words: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Local { kind, words: words.into(), reason: Some(reason.into()), cause: None }
    }

    /// The error of a request whose outcome is unknown.
    pub fn ambiguous(words: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::with_reason(Kind::Ambiguous, words, reason)
    }

    /// The same error, caused by this one.
    pub fn caused_by(self, error: RemoteError) -> Self {
        match self {
            Self::Local { kind, words, reason, .. } => Self::Local { kind, words, reason, cause: Some(error) },
            remote @ Self::Remote(_) => remote,
        }
    }

    /// Its text.
    pub fn words(&self) -> &str {
        match self {
            Self::Remote(error) => &error.words,
            Self::Local { words, .. } => words,
        }
    }

    /// True if the outcome of the request is unknown.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Local { kind: Kind::Ambiguous, .. })
    }

    /// True if reconnecting does not help: requests fail at once until a connection succeeds.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Remote(error) => error.code == ErrorCode::Unauthorized || error.code.class() == "ProtocolError",
            Self::Local { kind, .. } => *kind == Kind::Protocol,
        }
    }

    /// The server's error, if it says that its node is not the primary: nothing was done.
    pub fn not_primary(&self) -> Option<&RemoteError> {
        match self {
            Self::Remote(error) if error.code == ErrorCode::NotPrimary => Some(error),
            _ => None,
        }
    }

    /// True if it is an error of the arguments, which the same request meets again.
    pub(crate) fn is_of_arguments(&self) -> bool {
        matches!(self, Self::Remote(error) if matches!(error.code, ErrorCode::InvalidArgument | ErrorCode::TooLarge))
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}
