//! Tables of a store's logs: record batches of Arrow, read without the store's lock.
//!
//! [`TableSnapshot`] is a store as of one fact. [`plan()`] cuts one of its tables into [`Range`]s. A range names
//! files and offsets, and can be read wherever the folder is. [`open_ranges`] reads ranges as a source of record
//! batches. Damage ends the reading, or is listed next to what can be read. [`Loader`] is the reverse: it makes staged
//! runs of record batches, for one load to adopt.
//!
//! Read `schema`, `snapshot`, `plan`, `read`, `rows`, `ledger`, and then `loading`.

mod ledger;
mod loading;
mod plan;
mod read;
mod rows;
mod schema;
mod snapshot;

pub use loading::{BAD_ROWS_TOLD_MAX, BadRow, Loader, LoadingRules};
pub use plan::planner::{Asked, plan};
pub use plan::range::Range;
pub use read::reader::{OnDamage, Reading, SharedTold, Told, open_ranges};
pub use read::verification::{Verified, verify};
pub use schema::choice::{COLUMNS_MAX, Choice};
pub use schema::column::{Column, VERSION, type_word};
pub use schema::filter::Filter;
pub use schema::table::Table;
pub use snapshot::table_snapshot::TableSnapshot;

use delaymq_core::error::Error;

fn refused(argument: &'static str, expected: &str, found: &str) -> Error {
    Error::InvalidArgument { argument, expected: expected.to_owned(), found: found.to_owned() }
}
