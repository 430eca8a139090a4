//! A store's logs as tables: record batches of Arrow, read without the store's lock.
//!
//! [`TableSnapshot`] is what a store is as of one fact. [`plan`] cuts a table of it into [`Range`]s that name
//! files and offsets and can be read anywhere the folder is; [`open_ranges`] reads some, as a source of record
//! batches. What is damaged ends a reading, or is listed beside what can be read. [`Loader`] is the other way: record
//! batches that become staged runs, for one load to adopt.

mod action;
mod action_row;
mod cells;
mod column;
mod content;
mod cut;
mod deliveries;
mod facts;
mod filter;
mod json;
mod judge;
mod ledger;
mod ledger_gaps;
mod ledger_index;
mod ledger_queues;
mod ledger_rows;
mod loading;
mod loads;
mod message;
mod message_columns;
mod message_row;
mod moment;
mod numbers;
mod older;
mod parties;
mod pending;
mod plan;
mod plan_ready;
mod range;
mod range_parts;
mod range_token;
mod reading;
mod ready;
mod rows;
mod schema;
mod segments;
mod snapshot;
mod stretches;
mod table;
mod token;
mod verify;

pub use column::{Column, VERSION, type_word};
pub use filter::Filter;
pub use loading::{BAD_ROWS_TOLD_MAX, BadRow, Loader, LoadingRules};
pub use plan::{Asked, plan};
pub use range::Range;
pub use reading::{OnDamage, Reading, SharedTold, Told, open_ranges};
pub use schema::{COLUMNS_MAX, Choice};
pub use snapshot::TableSnapshot;
pub use table::Table;
pub use verify::{Verified, verify};
