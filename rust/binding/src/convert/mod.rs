//! Values across the boundary: Python's into Rust's and back.
//!
//! In: Python objects, or values of the engine. Out: the other. No function here waits.
//! Read `errors` (exceptions), then `message`, `key` (of deliveries), `meta` (ids, tags, attributes), `publishes` and `columns`
//! (of a batch), `receipt`, `terms`, `text`, `moments` (times), `fields` (dictionaries) and `qmq` (QMQ's messages).

pub(crate) mod columns;
pub(crate) mod errors;
pub(crate) mod fields;
pub(crate) mod key;
pub(crate) mod message;
pub(crate) mod meta;
pub(crate) mod moments;
pub(crate) mod publishes;
pub(crate) mod qmq;
pub(crate) mod receipt;
pub(crate) mod terms;
pub(crate) mod text;
