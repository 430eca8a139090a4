//! All columns, and which table has which. Columns are only ever added, at the end, and each may be null.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};

use crate::schema::table::Table;

/// Rises by one whenever a table gets a column.
pub const VERSION: u32 = 1;

/// The type of a column.
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
    /// The least ready number that a fact names.
    FirstNumber "first_number" Long,
    /// The greatest.
    LastNumber "last_number" Long,
    /// The least pull offset that a fact names.
    FirstOffset "first_offset" Long,
    /// The greatest.
    LastOffset "last_offset" Long,
    /// How many numbers, offsets, entries or messages a fact names.
    Count "count" Long,
    /// Which: a JSON list of firsts and counts.
    Ranges "ranges" Text,
    /// Which delivery comes next; of a dead letter, how many there were.
    Attempt "attempt" Short,
    /// Where a group begins.
    Start "start" Text,
    /// The name of a subject or of a series.
    Name "name" Text,
    /// Why a message is a dead letter.
    Reason "reason" Text,
    /// A file, relative to the store.
    Path "path" Text,
    /// Which of a store's logs a file is of.
    Log "log" Text,
    /// The least sequence in it.
    BaseSequence "base_sequence" Long,
    /// The sequence behind the greatest.
    EndSequence "end_sequence" Long,
    /// How many facts or rows it has.
    Rows "rows" Long,
    /// How long it is.
    Bytes "bytes" Long,
    /// The earliest time in it.
    MinTime "min_time" Time,
    /// The latest.
    MaxTime "max_time" Time,
    /// Whether nothing is added to it any more.
    Sealed "sealed" Flag,
    /// The sequence of the fact that made an entry ready.
    ReadySequence "ready_sequence" Long,
    /// When a group was given a message first.
    Delivered "delivered" Time,
    /// When a group had finished it.
    Acknowledged "acknowledged" Time,
    /// How often a group was given it.
    Attempts "attempts" Short,
    /// What became of it.
    Outcome "outcome" Text,
    /// How much later than it was due it was given.
    LatenessMs "lateness_ms" Long,
    /// When it came to that, where it is finished.
    Ended "ended" Time,
    /// The sequence of the fact that made its entry last.
    EntrySequence "entry_sequence" Long,
    /// The time from which no consumer is given it; null where it does not expire.
    Expires "expires" Time,
    /// The effect of the expiry: `drop` or `dead_letter`; null where it does not expire.
    OnExpiry "on_expiry" Text,
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
/// Behind those of a message, and of a pending one.
const EXPIRY: &[Column] = &[Column::Expires, Column::OnExpiry];
const READY: &[Column] = &[
    Column::Sequence,
    Column::Subject,
    Column::Number,
    Column::PublishedSequence,
    Column::Due,
    Column::Ready,
    Column::ReadySequence,
    Column::Epoch,
    Column::Segment,
    Column::Offset,
];
const ACTION: &[Column] = &[
    Column::Sequence,
    Column::Epoch,
    Column::Time,
    Column::Kind,
    Column::Subject,
    Column::Group,
    Column::GroupNumber,
    Column::Consumer,
    Column::ConsumerNumber,
    Column::FirstNumber,
    Column::LastNumber,
    Column::FirstOffset,
    Column::LastOffset,
    Column::Count,
    Column::Ranges,
    Column::TargetSequence,
    Column::TargetDue,
    Column::TargetSubject,
    Column::PublishedSequence,
    Column::Due,
    Column::DelayMs,
    Column::Key,
    Column::Attempt,
    Column::Start,
    Column::Name,
    Column::Reason,
    Column::Segment,
    Column::Offset,
];
const DELIVERIES: &[Column] = &[
    Column::Sequence,
    Column::Subject,
    Column::Group,
    Column::Number,
    Column::MessageId,
    Column::Published,
    Column::Due,
    Column::Ready,
    Column::Delivered,
    Column::Acknowledged,
    Column::Attempts,
    Column::Outcome,
    Column::LatenessMs,
    Column::Ended,
    Column::EntrySequence,
    Column::GroupNumber,
];
const SEGMENTS: &[Column] = &[
    Column::Log,
    Column::Path,
    Column::Number,
    Column::BaseSequence,
    Column::EndSequence,
    Column::Rows,
    Column::Bytes,
    Column::MinTime,
    Column::MaxTime,
    Column::Sealed,
];

/// Every column of a table, in order.
pub(crate) fn columns_of(table: Table) -> Vec<Column> {
    match table {
        Table::Message => [MESSAGE, EXPIRY].concat(),
        Table::Pending => [MESSAGE, PENDING, EXPIRY].concat(),
        Table::Ready => READY.to_vec(),
        Table::Action => ACTION.to_vec(),
        Table::Deliveries => DELIVERIES.to_vec(),
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

    /// True if it is read out of the record or its payload, which is checked then.
    pub(crate) const fn is_of_payload(self) -> bool {
        let is_of_meta = matches!(self, Self::MessageId | Self::Tags | Self::Attributes);
        is_of_meta || matches!(self, Self::Body | Self::BodyBytes | Self::Expires | Self::OnExpiry)
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
