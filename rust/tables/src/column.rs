//! What columns there are, and which a table has. Columns are only ever added, at the end; each may be null.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};

use crate::table::Table;

/// Rises by one whenever a table gets a column.
pub const VERSION: u32 = 1;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Long,
    Short,
    Text,
    Bytes,
    Time,
    Flag,
}

/// Makes of one list the columns, their names and their shapes.
macro_rules! columns {
    ($($(#[$about:meta])* $column:ident $name:literal $shape:ident,)+) => {
        /// One column.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Column {
            $($(#[$about])* $column,)+
        }

        impl Column {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)+
                }
            }

            pub(crate) const fn shape(self) -> Shape {
                match self {
                    $(Self::$column => Shape::$shape,)+
                }
            }
        }
    };
}

columns! {
    /// The place of the row's fact in the log.
    Sequence "sequence" Long,
    /// Which opening of the store wrote it.
    Epoch "epoch" Short,
    /// The name of its subject.
    Subject "subject" Text,
    /// The producer's id for it; null where it gave none.
    MessageId "message_id" Text,
    /// The hash by which the log knows subject and key, as 32 hexadecimal digits; null where there is no key.
    Key "key" Text,
    /// Its tags, a JSON list of texts.
    Tags "tags" Text,
    /// Its attributes, a JSON object of texts.
    Attributes "attributes" Text,
    /// The body as consumers get it.
    Body "body" Bytes,
    /// The length of that.
    BodyBytes "body_bytes" Long,
    /// The trusted time of the batch that it was committed in; of what is pending, that at which it came.
    Published "published" Time,
    /// When it is due.
    Due "due" Time,
    /// The file in which its record lies, relative to the store.
    Segment "segment" Text,
    /// Where in that file the record begins.
    Offset "offset" Long,
    /// The CRC-32 over its payload as it is stored.
    PayloadCheck "payload_check" Long,
    /// The sequence of the message; another one than that of the entry where it was moved or given back.
    PublishedSequence "published_sequence" Long,
    /// The sequence of the fact that made the entry which became ready.
    EntrySequence "entry_sequence" Long,
    /// The number of a ready message in its subject.
    Number "number" Long,
    /// When it became ready.
    Ready "ready" Time,
    /// The trusted time of the batch.
    Time "time" Time,
    /// What a row is of.
    Kind "kind" Text,
    /// The sequence of what a command is about.
    TargetSequence "target_sequence" Long,
    /// When that was due.
    TargetDue "target_due" Time,
    /// The subject to which a message goes on.
    TargetSubject "target_subject" Text,
    /// The delay that was asked for.
    DelayMs "delay_ms" Long,
    /// The group's name; null where it has ended long ago.
    Group "group" Text,
    /// The group's number.
    GroupNumber "group_number" Long,
    /// The consumer's name; null where it has ended long ago.
    Consumer "consumer" Text,
    /// The consumer's number.
    ConsumerNumber "consumer_number" Long,
    /// The first offset under which a consumer has something.
    PullOffset "pull_offset" Long,
    /// How many numbers or offsets a fact names.
    Count "count" Long,
    /// Which: a JSON list of firsts and counts.
    Ranges "ranges" Text,
    /// Which delivery comes next; of a dead letter, how many there were.
    Attempt "attempt" Short,
    /// Where a group begins.
    Start "start" Text,
    /// The name of a series.
    Name "name" Text,
    /// Why a message is a dead letter.
    Reason "reason" Text,
    /// A file, relative to the store.
    Path "path" Text,
    /// The least sequence in it.
    FirstSequence "first_sequence" Long,
    /// The sequence behind the greatest.
    EndSequence "end_sequence" Long,
    /// How long it is.
    Bytes "bytes" Long,
    /// What the disk gives for it.
    AllocatedBytes "allocated_bytes" Long,
    /// How many records or rows it has.
    Records "records" Long,
    /// The earliest time in it.
    FirstTime "first_time" Time,
    /// The latest.
    LastTime "last_time" Time,
    /// Whether nothing is added to it any more.
    IsSealed "is_sealed" Flag,
}

const MESSAGE: &[Column] = &[
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
/// Behind those of a message.
const PENDING: &[Column] = &[Column::PublishedSequence];
const READY: &[Column] = &[
    Column::Sequence,
    Column::Epoch,
    Column::Subject,
    Column::Number,
    Column::EntrySequence,
    Column::PublishedSequence,
    Column::Due,
    Column::Ready,
    Column::Segment,
    Column::Offset,
];
const ACTION: &[Column] = &[
    Column::Sequence,
    Column::Epoch,
    Column::Time,
    Column::Kind,
    Column::Subject,
    Column::TargetSequence,
    Column::TargetDue,
    Column::TargetSubject,
    Column::PublishedSequence,
    Column::Due,
    Column::DelayMs,
    Column::Key,
    Column::Group,
    Column::GroupNumber,
    Column::Consumer,
    Column::ConsumerNumber,
    Column::Number,
    Column::PullOffset,
    Column::Count,
    Column::Ranges,
    Column::Attempt,
    Column::Start,
    Column::Name,
    Column::Reason,
    Column::Segment,
    Column::Offset,
];
const SEGMENTS: &[Column] = &[
    Column::Kind,
    Column::Path,
    Column::Number,
    Column::FirstSequence,
    Column::EndSequence,
    Column::Bytes,
    Column::AllocatedBytes,
    Column::Records,
    Column::FirstTime,
    Column::LastTime,
    Column::IsSealed,
];

/// Every column of a table, in order.
pub(crate) fn columns_of(table: Table) -> Vec<Column> {
    match table {
        Table::Message => MESSAGE.to_vec(),
        Table::Pending => [MESSAGE, PENDING].concat(),
        Table::Ready => READY.to_vec(),
        Table::Action => ACTION.to_vec(),
        Table::Segments => SEGMENTS.to_vec(),
    }
}

impl Column {
    /// Its type.
    pub fn data_type(self) -> DataType {
        match self.shape() {
            Shape::Long => DataType::Int64,
            Shape::Short => DataType::Int32,
            Shape::Text => DataType::Utf8,
            Shape::Bytes => DataType::Binary,
            Shape::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Shape::Flag => DataType::Boolean,
        }
    }

    /// True where it is read out of the payload, which is checked then.
    pub(crate) const fn is_of_payload(self) -> bool {
        matches!(self, Self::MessageId | Self::Tags | Self::Attributes | Self::Body | Self::BodyBytes)
    }
}

/// The type of a column as Arrow's users write it.
pub fn type_word(column: Column) -> &'static str {
    match column.shape() {
        Shape::Long => "int64",
        Shape::Short => "int32",
        Shape::Text => "string",
        Shape::Bytes => "binary",
        Shape::Time => "timestamp[us, tz=UTC]",
        Shape::Flag => "bool",
    }
}
