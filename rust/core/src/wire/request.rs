//! Every request that the server knows, by its command; and the answer codes for errors of QMQ requests.
//!
//! A Java producer tries again after any error code of the whole answer. It fails a message, and reports this to
//! its user, only if the answer lists the message with code 1 or 5. The code 52, and the code 4 for a message, make
//! it leave the server until the list of servers changes, so neither is sent.

use super::extension::request::OwnRequest;
use super::extension::{EXTENSION_VERSION, HELLO, OWN_COMMANDS, PING};
use super::frame::{Frame, answer};
use super::malformed::Read;
use super::qmq::ack::{ACK, AckRequest, read_ack};
use super::qmq::consume_manage::{CONSUME_MANAGE, ConsumeManage, read_consume_manage};
use super::qmq::pull::{PULL, PullRequest, read_pull};
use super::qmq::register::{CLIENT_REGISTER, RegisterRequest, read_register};
use super::qmq::send::{SEND, SendCode, Sent, read_send};
use crate::error::Error;

/// A request, borrowed from its frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Messages of a QMQ client.
    Send(Vec<Sent<'a>>),
    /// A QMQ client pulls.
    Pull(PullRequest<'a>),
    /// A QMQ client acknowledges.
    Ack(AckRequest<'a>),
    /// An operator moves a group.
    ConsumeManage(ConsumeManage<'a>),
    /// A QMQ client registers.
    Register(RegisterRequest<'a>),
    /// A command of delaymq's own.
    Own(OwnRequest<'a>),
    /// A command of delaymq's own, in an unknown version.
    UnknownVersion(i16),
    /// An unknown command.
    Unknown(i16),
}

impl<'a> Request<'a> {
    /// Reads the request in a frame.
    ///
    /// # Errors
    /// `Malformed`, naming the field. The frame is complete, so the connection stays usable.
    pub fn read(frame: &'a Frame) -> Read<Self> {
        let (code, version, body) = (frame.header.code, frame.header.version, frame.body.as_ref());
        Ok(match code {
            SEND => Self::Send(read_send(body)?),
            PULL => Self::Pull(read_pull(body, version)?),
            ACK => Self::Ack(read_ack(body, version)?),
            CONSUME_MANAGE => Self::ConsumeManage(read_consume_manage(body)?),
            CLIENT_REGISTER => Self::Register(read_register(body)?),
            _ if is_of_unknown_version(code, version) => Self::UnknownVersion(version),
            _ => OwnRequest::read(code, body)?.map_or(Self::Unknown(code), Self::Own),
        })
    }
}

impl Request<'_> {
    /// True if the command and the version are known.
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown(_) | Self::UnknownVersion(_))
    }
}

/// HELLO and PING have one layout in every version, since they are sent before a version is agreed on.
fn is_of_unknown_version(command: i16, version: i16) -> bool {
    OWN_COMMANDS.contains(&command) && !matches!(command, HELLO | PING) && version != EXTENSION_VERSION
}

/// True for a command that QMQ's clients send.
pub const fn is_of_qmq(command: i16) -> bool {
    matches!(command, SEND | PULL | ACK | CONSUME_MANAGE | CLIENT_REGISTER)
}

/// The answer code for a QMQ request whose body cannot be read. QMQ's own clients never send such a body.
pub const fn malformed_answer(command: i16) -> i16 {
    match command {
        CONSUME_MANAGE => answer::PARAM_ERROR,
        _ => answer::BROKER_ERROR,
    }
}

/// The answer code for a QMQ request that failed as a whole.
pub const fn failed_answer(command: i16, error: &Error) -> i16 {
    match (command, error) {
        (CONSUME_MANAGE, Error::InvalidArgument { .. } | Error::TooLarge { .. }) => answer::PARAM_ERROR,
        // A refused pull is held for its time and then answered as empty: after an error the client would pull
        // again at once.
        (PULL, _) => answer::NO_MESSAGE,
        _ => answer::BROKER_ERROR,
    }
}

/// The code for a message of a SEND that could not be stored.
pub const fn send_code(error: &Error) -> SendCode {
    match error {
        Error::InvalidArgument { .. } | Error::TooLarge { .. } | Error::KeyTaken { .. } => SendCode::Refused,
        Error::Storage { .. }
        | Error::Corrupt { .. }
        | Error::MissingFile { .. }
        | Error::NewerFormat { .. }
        | Error::NotAStore { .. }
        | Error::Locked { .. }
        | Error::Poisoned { .. }
        | Error::DiskFull
        | Error::BelowMark { .. }
        | Error::Closed
        | Error::ForkedProcess { .. }
        | Error::NamesFull { .. }
        | Error::NotEnoughCopies { .. }
        | Error::NotPrimary { .. }
        | Error::NotNext { .. }
        | Error::Fenced { .. }
        | Error::Diverged { .. }
        | Error::NotKept { .. }
        | Error::DamagedPayload { .. } => SendCode::StoreError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Header;
    use bytes::Bytes;

    fn frame(command: i16, body: &[u8]) -> Frame {
        Frame { header: Header::request(command, EXTENSION_VERSION, 1), body: Bytes::copy_from_slice(body) }
    }

    #[test]
    fn a_version_that_nobody_knows_is_said_but_for_hello_and_ping() {
        let later = |command, body| {
            let read = frame(command, body);
            Request::read(&Frame { header: Header::request(command, 2, 1), ..read })
                .map(|request| format!("{request:?}"))
        };
        for command in [202, 211, 220, 299] {
            assert_eq!(later(command, b"anything"), Ok("UnknownVersion(2)".to_owned()));
        }
        assert_eq!(later(PING, b"x"), Ok("Own(Ping([120]))".to_owned()));
        assert_eq!(later(300, b""), Ok("Unknown(300)".to_owned()));
    }

    #[test]
    fn a_command_that_nobody_knows_is_named() {
        for command in [0, 20, 24, 100, 199, 239, -1, i16::MAX] {
            assert_eq!(Request::read(&frame(command, b"anything")), Ok(Request::Unknown(command)));
        }
        assert_eq!(Request::read(&frame(220, b"")), Ok(Request::Own(OwnRequest::Status)));
        assert_eq!(Request::read(&frame(SEND, b"")), Ok(Request::Send(Vec::new())));
        assert!(Request::read(&frame(220, b"x")).is_err());
        assert_eq!([10, 11, 12, 25, 35, 202].map(is_of_qmq), [true, true, true, true, true, false]);
    }

    #[test]
    fn what_passes_never_turns_a_client_away_and_what_cannot_succeed_is_not_retried() {
        let bad = Error::InvalidArgument { argument: "subject", expected: String::new(), found: String::new() };
        let large = Error::TooLarge { argument: "body", limit: 1, found: 2 };
        for error in [&bad, &large] {
            assert_eq!(send_code(error), SendCode::Refused);
            assert_eq!(failed_answer(CONSUME_MANAGE, error), answer::PARAM_ERROR);
        }
        let below = Error::BelowMark { free_bytes: 1, mark_bytes: 2 };
        for error in [Error::DiskFull, below, Error::Closed, Error::Poisoned { reason: String::new() }] {
            assert_eq!(send_code(&error), SendCode::StoreError);
            for command in [SEND, ACK, CLIENT_REGISTER, CONSUME_MANAGE] {
                assert_eq!(failed_answer(command, &error), answer::BROKER_ERROR);
            }
            assert_eq!(failed_answer(PULL, &error), answer::NO_MESSAGE);
        }
        assert_eq!(malformed_answer(SEND), answer::BROKER_ERROR);
    }
}
