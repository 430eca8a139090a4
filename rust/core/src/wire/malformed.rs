//! The errors of malformed bytes from the network.

use thiserror::Error;

use crate::error::Error as CoreError;

/// Why bytes from the network are refused. Each names the field.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    /// The bytes end before the field does.
    #[error("{field}: {needed} bytes are needed, {left} are there")]
    Short {
        /// The field.
        field: &'static str,
        /// The bytes that it needs.
        needed: usize,
        /// The bytes that are left.
        left: usize,
    },
    /// A length or a number that the field cannot have.
    #[error("{field}: expected {expected}, found {found}")]
    Value {
        /// The field.
        field: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The value found.
        found: i64,
    },
    /// Text that is not UTF-8.
    #[error("{field}: expected UTF-8, found other bytes from offset {offset} on")]
    NotText {
        /// The field.
        field: &'static str,
        /// Where in the text.
        offset: usize,
    },
    /// More of something than its limit.
    #[error("{field}: the limit is {limit}, found {found}")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// The limit.
        limit: u64,
        /// The value found.
        found: u64,
    },
    /// Bytes after the last field.
    #[error("{field}: {count} bytes are left over")]
    LeftOver {
        /// The part that had ended.
        field: &'static str,
        /// The number of bytes.
        count: usize,
    },
}

/// Shorthand for reading from the network.
pub type Read<T> = std::result::Result<T, Malformed>;

impl From<Malformed> for CoreError {
    fn from(malformed: Malformed) -> Self {
        let refused = |argument, expected: String, found: String| Self::InvalidArgument { argument, expected, found };
        match malformed {
            Malformed::Short { field, needed, left } => {
                refused(field, format!("{needed} bytes"), format!("{left} bytes"))
            }
            Malformed::Value { field, expected, found } => refused(field, expected.to_owned(), found.to_string()),
            Malformed::NotText { field, offset } => {
                refused(field, "UTF-8".to_owned(), format!("other bytes from offset {offset} on"))
            }
            Malformed::TooLarge { field, limit, found } => Self::TooLarge { argument: field, limit, found },
            Malformed::LeftOver { field, count } => {
                refused(field, "no more bytes".to_owned(), format!("{count} bytes left over"))
            }
        }
    }
}
