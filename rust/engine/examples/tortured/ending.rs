//! How it ends, for the harness.

use delaymq_core::error::Error;

use crate::telling::{Line, Telling};

/// Why it ended; see the table of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Done,
    Refused,
    Poisoned,
    Storage,
    Locked,
    Unexpected,
    Damaged,
    Undrained,
}

impl Cause {
    /// What an error of the open means.
    pub(crate) const fn of_open(error: &Error) -> Self {
        match error {
            Error::Corrupt { .. }
            | Error::MissingFile { .. }
            | Error::NewerFormat { .. }
            | Error::NotAStore { .. }
            | Error::DamagedPayload { .. } => Self::Refused,
            Error::Storage { .. } | Error::DiskFull => Self::Storage,
            Error::Locked { .. } => Self::Locked,
            other => Self::of(other),
        }
    }

    /// What an error of an open store means.
    pub(crate) const fn of(error: &Error) -> Self {
        match error {
            Error::Poisoned { .. } => Self::Poisoned,
            Error::Storage { .. } => Self::Storage,
            _ => Self::Unexpected,
        }
    }

    const fn word_and_exit(self) -> (&'static str, i32) {
        match self {
            Self::Done => ("done", 0),
            Self::Refused => ("refused", 3),
            Self::Poisoned => ("poisoned", 4),
            Self::Storage => ("storage", 5),
            Self::Locked => ("locked", 6),
            Self::Unexpected => ("unexpected", 7),
            Self::Damaged => ("damaged", 8),
            Self::Undrained => ("undrained", 9),
        }
    }
}

/// Tells the cause and ends the process, whoever else is still at work.
pub(crate) fn end(telling: &Telling, cause: Cause, error: &str) -> ! {
    let (word, exit) = cause.word_and_exit();
    telling.tell_last(&Line::of("ended").text("cause", word).text("error", error));
    std::process::exit(exit)
}

/// As [`end`], by an error.
pub(crate) fn end_with(telling: &Telling, cause: Cause, error: &Error) -> ! {
    end(telling, cause, &error.to_string())
}
