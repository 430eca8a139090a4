//! The core of delaymq: the rules of the queue, without a clock, a thread or a socket.
//!
//! The path of a message: [`wire`] turns the bytes of a connection into a request. [`store`] proposes a fact for it,
//! and [`record`] encodes the fact. [`message_log`] writes facts in batches and makes them durable; `storage` is the
//! disk. The store then applies the fact: the message is pending in [`schedule_log`], and [`wheel`] orders what is due
//! soon. When the message is due, it enters [`dispatch_log`], the ready messages of its subject. [`queues`] assign it
//! to a consumer, and keep the lease until the consumer acknowledges it. A checkpoint moves old entries from memory to
//! sorted files, the [`run`]s, and retention removes the files that nothing needs.

pub mod clock;
pub mod dispatch_log;
pub mod error;
pub mod message_log;
pub mod planted;
pub mod queues;
pub mod record;
pub mod replication;
pub mod run;
pub mod schedule_log;
pub mod storage;
pub mod store;
pub mod units;
pub mod wheel;
pub mod wire;

pub use error::{Error, Result};
