//! A store behind a server: the server itself, and clients of one.
//!
//! In: arguments of Python. Out: requests to a server, and its answers and messages as Python values.
//! Read `server` with `qmq_options`, then `connection` (one client) and `waiting`, `requests`, `reading`, `answers`
//! and `subscription`.

pub(crate) mod answers;
pub(crate) mod connection;
pub(crate) mod qmq_options;
pub(crate) mod reading;
pub(crate) mod requests;
pub(crate) mod server;
pub(crate) mod subscription;
pub(crate) mod waiting;
