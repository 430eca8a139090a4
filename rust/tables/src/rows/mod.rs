//! Rows that become record batches of Arrow.
//!
//! In: messages and facts, as the core decodes them. Out: arrays, column by column.
//! Read `row_batches` and `cells`, then `message_row`, `message_columns` (many messages at once) and `action_row`, and
//! `content` with `json` (what a payload says).

pub(crate) mod action_row;
pub(crate) mod cells;
pub(crate) mod content;
pub(crate) mod json;
pub(crate) mod message_columns;
pub(crate) mod message_row;
pub(crate) mod row_batches;
