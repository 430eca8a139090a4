//! A store's logs as tables: record batches of Arrow, read without the store's lock.
//!
//! [`TableSnapshot`] is what a store is as of one fact. [`plan::planner`] cuts a table of it into [`Range`]s that name
//! files and offsets and can be read anywhere the folder is; [`open_ranges`] reads some, as a source of record
//! batches. What is damaged ends a reading, or is listed beside what can be read. [`Loader`] is the other way: record
//! batches that become staged runs, for one load to adopt.

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
