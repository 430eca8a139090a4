//! What columns a table has. Columns are only ever added, at the end; each may be null.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use delaymq_core::error::{Error, Result};

use crate::range::Table;

/// Rises by one whenever a table gets a column.
pub const VERSION: u32 = 1;
/// No choice of columns is longer.
pub const COLUMNS_MAX: usize = 64;

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// The place of the message's fact in the log.
    Sequence,
    /// Which opening of the store wrote it.
    Epoch,
    /// Its subject's name.
    Subject,
    /// The producer's id for it; null where it gave none.
    MessageId,
    /// The hash by which the log knows subject and key, as 32 hexadecimal digits; null where there is no key.
    Key,
    /// Its tags, a JSON list of texts.
    Tags,
    /// Its attributes, a JSON object of texts.
    Attributes,
    /// The body as consumers get it.
    Body,
    /// The length of that.
    BodyBytes,
    /// The trusted time of the batch that it was committed in; of what is pending, that at which it came.
    Published,
    /// When it is due.
    Due,
    /// The file in which its record lies, relative to the store.
    Segment,
    /// Where in that file the record begins.
    Offset,
    /// The CRC-32 over its payload as it is stored.
    PayloadCheck,
    /// The sequence of the message; another one than `sequence` where that was moved or given back.
    PublishedSequence,
}

const MESSAGE: [Column; 14] = [
    Column::Sequence,
    Column::Epoch,
    Column::Subject,
    Column::MessageId,
    Column::Key,
    Column::Tags,
    Column::Attributes,
    Column::Body,
    Column::BodyBytes,
    Column::Published,
    Column::Due,
    Column::Segment,
    Column::Offset,
    Column::PayloadCheck,
];

impl Column {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence",
            Self::Epoch => "epoch",
            Self::Subject => "subject",
            Self::MessageId => "message_id",
            Self::Key => "key",
            Self::Tags => "tags",
            Self::Attributes => "attributes",
            Self::Body => "body",
            Self::BodyBytes => "body_bytes",
            Self::Published => "published",
            Self::Due => "due",
            Self::Segment => "segment",
            Self::Offset => "offset",
            Self::PayloadCheck => "payload_check",
            Self::PublishedSequence => "published_sequence",
        }
    }

    /// Its type.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Sequence | Self::BodyBytes | Self::Offset | Self::PayloadCheck | Self::PublishedSequence => {
                DataType::Int64
            }
            Self::Epoch => DataType::Int32,
            Self::Body => DataType::Binary,
            Self::Published | Self::Due => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Self::Subject | Self::MessageId | Self::Key | Self::Tags | Self::Attributes | Self::Segment => {
                DataType::Utf8
            }
        }
    }

    /// True where it is read out of the payload, which is checked then.
    pub(crate) const fn is_of_payload(self) -> bool {
        matches!(self, Self::MessageId | Self::Tags | Self::Attributes | Self::Body | Self::BodyBytes)
    }
}

/// The type of a column as Arrow's users write it.
pub fn type_word(column: Column) -> &'static str {
    match column.data_type() {
        DataType::Int64 => "int64",
        DataType::Int32 => "int32",
        DataType::Binary => "binary",
        DataType::Utf8 => "string",
        _ => "timestamp[us, tz=UTC]",
    }
}

/// Some columns of a table, in an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice(Vec<Column>);

impl Choice {
    /// Every column, in the table's own order.
    pub fn all(table: Table) -> Self {
        match table {
            Table::Message => Self(MESSAGE.to_vec()),
            Table::Pending => Self(MESSAGE.into_iter().chain([Column::PublishedSequence]).collect()),
        }
    }

    /// Those that are named, in the order in which they are; none at all is a choice, too.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that the table has not, or one that comes twice.
    pub fn named(table: Table, names: &[String]) -> Result<Self> {
        let all = Self::all(table);
        let refused = |expected: String, found: &str| Error::InvalidArgument {
            argument: "columns",
            expected,
            found: found.to_owned(),
        };
        let mut chosen = Vec::new();
        for name in names.iter().take(COLUMNS_MAX) {
            let Some(column) = all.0.iter().copied().find(|column| column.name() == name) else {
                let known: Vec<&str> = all.0.iter().map(|column| column.name()).collect();
                return Err(refused(format!("columns of {}: {}", table.name(), known.join(", ")), name));
            };
            if chosen.contains(&column) {
                return Err(refused("each column once".to_owned(), name));
            }
            chosen.push(column);
        }
        Ok(Self(chosen))
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.0
    }

    pub(crate) fn reads_payload(&self) -> bool {
        self.0.iter().any(|column| column.is_of_payload())
    }

    pub(crate) fn has(&self, column: Column) -> bool {
        self.0.contains(&column)
    }

    pub(crate) fn schema(&self, table: Table) -> SchemaRef {
        let field = |column: &Column| Field::new(column.name(), column.data_type(), true);
        let fields: Vec<Field> = self.0.iter().map(field).collect();
        let metadata = [("delaymq.table", table.name().to_owned()), ("delaymq.version", VERSION.to_string())];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}
