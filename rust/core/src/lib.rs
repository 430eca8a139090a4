//! The core of delaymq: what happens, and nothing about when or where.

pub mod clock;
pub mod dispatch_log;
pub mod error;
pub mod message_log;
pub mod planted;
pub mod queues;
pub mod record;
pub mod run;
pub mod schedule_log;
pub mod storage;
pub mod store;
pub mod units;
pub mod wheel;
pub mod wire;

pub use error::{Error, Result};
