//! `CONSUME_MANAGE` (25): an operator moves a group.
//!
//! `str subject | str group | where i32`: 1 for the next message, 2 for the earliest one that is kept. The
//! answer has no body.

use bytes::BufMut;

use crate::error::{Error, Result};
use crate::store::StartAt;
use crate::wire::fields::put_text;
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// The command.
pub const CONSUME_MANAGE: i16 = 25;

/// The request to move a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumeManage<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
    /// The new place; `None` for a number without a meaning, which changes nothing.
    pub start: Option<StartAt>,
}

/// Reads a request.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_consume_manage(body: &[u8]) -> Read<ConsumeManage<'_>> {
    let mut reader = Reader::new(body);
    let (subject, group) = (reader.text("subject")?, reader.text("group")?);
    let start = match reader.i32("where")? {
        1 => Some(StartAt::Latest),
        2 => Some(StartAt::Earliest),
        _ => None,
    };
    reader.finish("consume_manage").map(|()| ConsumeManage { subject, group, start })
}

/// Appends a request.
///
/// # Errors
/// `TooLarge` naming the field.
pub fn put_consume_manage(out: &mut Vec<u8>, request: &ConsumeManage<'_>) -> Result<()> {
    put_text(out, "subject", request.subject)?;
    put_text(out, "group", request.group)?;
    out.put_i32(match request.start {
        Some(StartAt::Latest) => 1,
        Some(StartAt::Earliest) => 2,
        Some(StartAt::Unfinished) | None => 0,
        Some(other) => {
            let (expected, found) = ("\"latest\" or \"earliest\"".to_owned(), format!("{other:?}"));
            return Err(Error::InvalidArgument { argument: "start", expected, found });
        }
    });
    Ok(())
}
