//! Errors on the wire: each [`Error`] has a number and is sent with its details, so that a client can raise the
//! same error as the embedded store.
//!
//! The number is the code of the answer. Its body is `blob words | count u8 | (attribute u8 | kind u8 (0 text, 1
//! number) | blob or u64)*`.

use bytes::BufMut;

use crate::error::{Error, Result, StorageFault};
use crate::wire::fields::put_blob;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::{Reader, utf8};

/// The longest text of an error, in bytes; a longer text is cut.
pub const ERROR_TEXT_BYTES_MAX: usize = 4_096;
/// The most attributes of an error.
const ATTRIBUTES_MAX: u8 = 32;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $class:literal;)*) => {
        /// The kind of an error: its number in the frame, and its class, the exception of `delaymq.errors` that a
        /// Python client raises.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            pub const fn number(self) -> i16 {
                match self { $(Self::$name => $number,)* }
            }

            /// The name of the exception in `delaymq.errors`.
            pub const fn class(self) -> &'static str {
                match self { $(Self::$name => $class,)* }
            }

            /// The code of a number.
            pub const fn of(number: i16) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// A failure without a code of its own in this release.
    Other = 1000, "StoreError";
    /// An argument has a value that is refused; nothing was stored.
    InvalidArgument = 1001, "InvalidArgument";
    /// An argument is over its limit; nothing was stored.
    TooLarge = 1002, "TooLarge";
    /// A call to the file system failed.
    Storage = 1003, "StorageError";
    /// There is no room for new messages.
    DiskFull = 1004, "DiskFull";
    /// The operating system does not allow it.
    PermissionDenied = 1005, "PermissionDenied";
    /// A file that must be there is not.
    MissingFile = 1006, "MissingFile";
    /// The folder holds something other than a store.
    NotAStore = 1007, "NotAStore";
    /// A later release wrote the store.
    NewerFormat = 1008, "NewerFormat";
    /// Durable bytes are damaged.
    Corrupt = 1009, "Corrupt";
    /// A payload is damaged.
    DamagedPayload = 1010, "DamagedPayload";
    /// Another process has the store open.
    Locked = 1011, "Locked";
    /// A write or sync failed: the server must be started again.
    Poisoned = 1012, "Poisoned";
    /// The store or the subscription is closed.
    Closed = 1013, "Closed";
    /// A forked child used its parent's store.
    ForkedProcess = 1014, "ForkedProcess";
    /// The message was settled before, or does not belong to this subscription.
    AlreadySettled = 1015, "AlreadySettled";
    /// A pending message has the key; nothing was stored.
    KeyTaken = 1016, "KeyTaken";
    /// There is no room for one more key, or id; nothing was stored.
    NamesFull = 1017, "NamesFull";
    /// The bytes of the request do not match its command.
    Malformed = 1020, "ProtocolError";
    /// The server and the client have no version in common.
    UnknownVersion = 1021, "ProtocolError";
    /// The connection has no subscription of that number, or has one already.
    UnknownSubscription = 1022, "ProtocolError";
    /// A token is required, or the token is wrong.
    Unauthorized = 1030, "Unauthorized";
    /// Too many requests are under way; the client may try again later.
    Busy = 1031, "Busy";
    /// The server is stopping; the client may connect again when it is back.
    Stopping = 1032, "Stopping";
    /// This node is not the primary of its group of copies, and nothing was done. `address` is where the primary is,
    /// as `host:port`, or empty if that is not known; `epoch` is the epoch that this node knows of.
    NotPrimary = 1033, "NotPrimary";
    /// Too few nodes have a copy. `maybe_stored` is 1 if the request was executed and may be lost with this node, and 0
    /// if it was refused.
    NotEnoughCopies = 1034, "NotEnoughCopies";
}

impl ErrorCode {
    /// True if the same request may succeed later.
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::DiskFull
                | Self::NamesFull
                | Self::Busy
                | Self::Stopping
                | Self::NotPrimary
                | Self::NotEnoughCopies
                | Self::Storage
                | Self::Poisoned
                | Self::Locked
        )
    }
}

macro_rules! attributes {
    ($($name:ident = $number:literal, $word:literal;)*) => {
        /// A detail of an error, as `delaymq.errors` names it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Attribute {
            $(#[doc = concat!("`", $word, "`.")] $name,)*
        }

        impl Attribute {
            /// The number on the wire.
            pub const fn number(self) -> u8 {
                match self { $(Self::$name => $number,)* }
            }

            /// The name of the attribute in Python.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The attribute of a number.
            pub const fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

attributes! {
    Argument = 1, "argument";
    Path = 2, "path";
    Offset = 3, "offset";
    Expected = 4, "expected";
    Found = 5, "found";
    Reason = 6, "reason";
    Limit = 7, "limit";
    Sequence = 8, "sequence";
    Errno = 9, "errno";
    Index = 10, "index";
    Owner = 11, "owner";
    Caller = 12, "caller";
    Address = 13, "address";
    Epoch = 14, "epoch";
    Copies = 15, "copies";
    MinCopies = 16, "min_copies";
    MaybeStored = 17, "maybe_stored";
}

/// The value of a detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// An error as it is sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{words}")]
pub struct RemoteError {
    /// Its kind.
    pub code: ErrorCode,
    /// Its text.
    pub words: String,
    /// The details, in no order.
    pub details: Vec<(Attribute, Value)>,
}

impl RemoteError {
    /// An error without details.
    pub fn new(code: ErrorCode, words: &str) -> Self {
        Self { code, words: words.to_owned(), details: Vec::new() }
    }

    /// The same error with one more detail.
    pub fn with(mut self, attribute: Attribute, value: impl Into<Value>) -> Self {
        self.details.push((attribute, value.into()));
        self
    }

    /// A detail.
    pub fn detail(&self, attribute: Attribute) -> Option<&Value> {
        self.details.iter().find(|(known, _)| *known == attribute).map(|(_, value)| value)
    }

    /// Reads the body of an answer with this code. Unknown details of a later release are skipped.
    ///
    /// # Errors
    /// `Malformed`, naming `error`.
    pub fn read(number: i16, body: &[u8]) -> Read<Self> {
        const FIELD: &str = "error";
        let mut reader = Reader::new(body);
        let text = |reader: &mut Reader<'_>| -> Read<String> {
            Ok(utf8(FIELD, reader.blob(FIELD, ERROR_TEXT_BYTES_MAX)?)?.to_owned())
        };
        let words = text(&mut reader)?;
        let count = reader.u8(FIELD)?;
        if count > ATTRIBUTES_MAX {
            return Err(Malformed::TooLarge { field: FIELD, limit: ATTRIBUTES_MAX.into(), found: count.into() });
        }
        let mut details = Vec::new();
        for _ in 0..count {
            let attribute = Attribute::of(reader.u8(FIELD)?);
            let value = match reader.u8(FIELD)? {
                0 => Value::Text(text(&mut reader)?),
                1 => Value::Number(reader.u64(FIELD)?),
                found => return Err(Malformed::Value { field: FIELD, expected: "0 or 1", found: i64::from(found) }),
            };
            details.extend(attribute.map(|attribute| (attribute, value)));
        }
        reader.finish(FIELD)?;
        Ok(Self { code: ErrorCode::of(number).unwrap_or(ErrorCode::Other), words, details })
    }

    /// Appends the body of the answer.
    ///
    /// # Errors
    /// Only `TooLarge`, if there are more details than an error can have.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_blob(out, "error", ERROR_TEXT_BYTES_MAX, shortened(&self.words).as_bytes())?;
        crate::record::limits::at_most("error", usize::from(ATTRIBUTES_MAX), self.details.len())?;
        out.put_u8(self.details.len() as u8);
        for (attribute, value) in &self.details {
            out.put_u8(attribute.number());
            match value {
                Value::Text(text) => {
                    out.put_u8(0);
                    put_blob(out, "error", ERROR_TEXT_BYTES_MAX, shortened(text).as_bytes())?;
                }
                Value::Number(number) => {
                    out.put_u8(1);
                    out.put_u64(*number);
                }
            }
        }
        Ok(())
    }
}

/// A text, cut to the length that an error may have.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(ERROR_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

impl From<&Malformed> for RemoteError {
    fn from(malformed: &Malformed) -> Self {
        let told = Self::from(&Error::from(malformed.clone()));
        Self { code: ErrorCode::Malformed, words: malformed.to_string(), ..told }
    }
}

impl From<&Error> for RemoteError {
    fn from(error: &Error) -> Self {
        let told = |code| Self::new(code, &error.to_string());
        let place = |code, path: &str, offset: u64, expected: &str, found: &str| {
            let placed = told(code).with(Attribute::Path, path).with(Attribute::Offset, offset);
            placed.with(Attribute::Expected, expected).with(Attribute::Found, found)
        };
        match error {
            Error::Storage { operation, path, fault, message } => {
                let (code, errno) = fault_code(*fault);
                let reason = format!("{operation}: {message}");
                let placed = told(code).with(Attribute::Path, path.as_str()).with(Attribute::Errno, errno);
                placed.with(Attribute::Reason, reason.as_str())
            }
            Error::Corrupt { path, offset, expected, found } => {
                place(ErrorCode::Corrupt, path, *offset, expected, found)
            }
            Error::DamagedPayload { sequence, path, offset, expected, found } => {
                place(ErrorCode::DamagedPayload, path, *offset, expected, found).with(Attribute::Sequence, *sequence)
            }
            Error::MissingFile { path, reason } => {
                let placed = told(ErrorCode::MissingFile).with(Attribute::Path, path.as_str());
                let placed = placed.with(Attribute::Reason, reason.as_str());
                placed.with(Attribute::Expected, "a file").with(Attribute::Found, "none")
            }
            Error::NewerFormat { path, offset, found, supported } => {
                let expected = format!("format {supported} or earlier");
                place(ErrorCode::NewerFormat, path, *offset, &expected, &format!("format {found}"))
            }
            Error::NotAStore { path, found } => {
                let placed = told(ErrorCode::NotAStore).with(Attribute::Path, path.as_str());
                placed.with(Attribute::Expected, "a store").with(Attribute::Found, found.as_str())
            }
            Error::Locked { path } => {
                let placed = told(ErrorCode::Locked).with(Attribute::Path, path.as_str());
                let placed = placed.with(Attribute::Expected, "a store that nobody has open");
                placed.with(Attribute::Found, "another process has it open")
            }
            Error::Poisoned { reason } => told(ErrorCode::Poisoned).with(Attribute::Reason, reason.as_str()),
            Error::DiskFull | Error::BelowMark { .. } => told(ErrorCode::DiskFull),
            Error::Closed => told(ErrorCode::Closed),
            Error::ForkedProcess { owner, caller } => told(ErrorCode::ForkedProcess)
                .with(Attribute::Owner, u64::from(*owner))
                .with(Attribute::Caller, u64::from(*caller)),
            Error::InvalidArgument { argument, expected, found } => {
                let told = told(ErrorCode::InvalidArgument).with(Attribute::Argument, *argument);
                told.with(Attribute::Expected, expected.as_str()).with(Attribute::Found, found.as_str())
            }
            Error::KeyTaken { receipt, index } => key_taken(told(ErrorCode::KeyTaken), receipt, *index),
            Error::NamesFull { argument, limit } => {
                told(ErrorCode::NamesFull).with(Attribute::Argument, *argument).with(Attribute::Limit, *limit)
            }
            Error::NotEnoughCopies { copies, min_copies, maybe_stored } => told(ErrorCode::NotEnoughCopies)
                .with(Attribute::Copies, *copies)
                .with(Attribute::MinCopies, *min_copies)
                .with(Attribute::MaybeStored, u64::from(*maybe_stored)),
            Error::NotPrimary { epoch } => {
                told(ErrorCode::NotPrimary).with(Attribute::Address, "").with(Attribute::Epoch, u64::from(*epoch))
            }
            // These are between copies of a store, and reach no client.
            Error::NotNext { .. } | Error::Fenced { .. } | Error::Diverged { .. } | Error::NotKept { .. } => {
                told(ErrorCode::Other)
            }
            Error::TooLarge { argument, limit, found } => {
                let told = told(ErrorCode::TooLarge).with(Attribute::Argument, *argument);
                told.with(Attribute::Limit, *limit).with(Attribute::Found, found.to_string().as_str())
            }
        }
    }
}

fn key_taken(told: RemoteError, receipt: &str, index: u64) -> RemoteError {
    let told = told.with(Attribute::Argument, "key").with(Attribute::Index, index);
    told.with(Attribute::Expected, "a key that no pending message has").with(Attribute::Found, receipt)
}

/// The code and the Linux error number of such a failure.
const fn fault_code(fault: StorageFault) -> (ErrorCode, u64) {
    match fault {
        StorageFault::NotFound => (ErrorCode::Storage, 2),
        StorageFault::Io | StorageFault::Stopped => (ErrorCode::Storage, 5),
        StorageFault::PermissionDenied => (ErrorCode::PermissionDenied, 13),
        StorageFault::AlreadyExists => (ErrorCode::Storage, 17),
        StorageFault::NoSpace => (ErrorCode::DiskFull, 28),
    }
}
