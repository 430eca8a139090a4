//! A store's logs as tables: record batches of Arrow, read without the store's lock.
//!
//! [`TableSnapshot`] is what a store is as of one fact. [`plan`] cuts a table of it into [`Range`]s that name
//! files and offsets and can be read anywhere the folder is; [`open_ranges`] reads some, as a source of record
//! batches. What is damaged ends a reading, or is listed beside what can be read.

mod content;
mod cut;
mod filter;
mod json;
mod message;
mod pending;
mod plan;
mod range;
mod reading;
mod rows;
mod schema;
mod snapshot;
mod stretches;
mod token;
mod verify;

pub use filter::Filter;
pub use plan::{Asked, plan};
pub use range::{Range, Table};
pub use reading::{OnDamage, Reading, SharedTold, Told, open_ranges};
pub use schema::{COLUMNS_MAX, Choice, Column, VERSION, type_word};
pub use snapshot::TableSnapshot;
pub use verify::{Verified, verify};
