//! A row that is a message.

use std::fmt::Write;

use delaymq_core::record::terms::NameHash;
use delaymq_core::units::{Epoch, Millis, Sequence};

use crate::rows::cells::Cell;
use crate::rows::content::Content;
use crate::rows::json::{put_list, put_object};
use crate::rows::row_batches::Row;
use crate::schema::column::Column;

/// A message, in the log or pending.
#[derive(Clone, Debug)]
pub(crate) struct MessageRow<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) key: Option<NameHash>,
    /// `None` if no column is of it.
    pub(crate) content: Option<Content<'a>>,
    pub(crate) published: Option<Millis>,
    pub(crate) due: Millis,
    pub(crate) file: &'a str,
    pub(crate) offset: u32,
    /// `None` if the record was not read.
    pub(crate) payload_check: Option<u32>,
    pub(crate) published_sequence: Sequence,
}

impl Row for MessageRow<'_> {
    #[expect(clippy::inline_always, reason = "a column is matched once then, not a second time by its cell")]
    #[inline(always)]
    fn cell(&self, column: Column, written: &mut String) -> Cell<'_> {
        match column {
            Column::Sequence => Cell::Number(self.sequence.0),
            Column::Epoch => Cell::number(self.epoch.map(|epoch| u64::from(epoch.0))),
            Column::Subject => Cell::text(self.subject),
            Column::Key => key_cell(self.key, written),
            Column::Published => Cell::time(self.published),
            Column::Due => Cell::Time(self.due),
            Column::Segment => Cell::Text(self.file),
            Column::Offset => Cell::Number(u64::from(self.offset)),
            Column::PayloadCheck => Cell::number(self.payload_check.map(u64::from)),
            Column::PublishedSequence => Cell::Number(self.published_sequence.0),
            _ => self.content.as_ref().map_or(Cell::Null, |content| content_cell(content, column, written)),
        }
    }
}

#[expect(clippy::inline_always, reason = "as of the cells that call it")]
#[inline(always)]
fn content_cell<'a>(content: &'a Content<'_>, column: Column, written: &mut String) -> Cell<'a> {
    match column {
        Column::MessageId => Cell::text(Some(content.message_id).filter(|id| !id.is_empty())),
        Column::Tags if content.tags.is_empty() => Cell::Text("[]"),
        Column::Tags => {
            put_list(written, content.tags.iter().copied());
            Cell::Written
        }
        Column::Attributes if content.attributes.is_empty() => Cell::Text("{}"),
        Column::Attributes => {
            put_object(written, content.attributes.iter().copied());
            Cell::Written
        }
        Column::Body => Cell::Bytes(content.body),
        Column::BodyBytes => Cell::Number(content.body.len() as u64),
        Column::Expires => Cell::time(content.expiry.map(|expiry| expiry.at)),
        Column::OnExpiry => Cell::text(content.expiry.map(|expiry| expiry.then.word())),
        _ => Cell::Null,
    }
}

/// A key's hash as digits.
pub(crate) fn key_cell<'a>(key: Option<NameHash>, written: &mut String) -> Cell<'a> {
    let Some(key) = key else { return Cell::Null };
    // Writing to a text cannot fail.
    let _ = write!(written, "{:016x}{:016x}", key.high, key.low);
    Cell::Written
}
