//! The reasons why the input of a connection ends.

use crate::wire::malformed::Malformed;

/// Why a connection takes no more input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The peer sent bytes that are no request.
    Malformed(Malformed),
    /// No valid request came in time, or the peer was not admitted in time.
    FirstRequestLate,
    /// A frame was begun and not completed in time.
    FrameLate,
    /// The peer does not read.
    ReaderLate,
    /// The peer has subscriptions and sent nothing for too long.
    Silent,
    /// The peer sent a command without permission, and would not understand a refusal.
    TurnedAway,
    /// All connections together hold too much memory, and this one holds too much of it.
    Crowded,
    /// The peer closed its side.
    PeerClosed,
    /// The server is stopping.
    Drained,
}

impl Ending {
    /// The name of the kind, in lower case with underscores, for logs and counters.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::FirstRequestLate => "first_request_late",
            Self::FrameLate => "frame_late",
            Self::ReaderLate => "reader_late",
            Self::Silent => "silent",
            Self::TurnedAway => "turned_away",
            Self::Crowded => "crowded",
            Self::PeerClosed => "peer_closed",
            Self::Drained => "drained",
        }
    }
}
