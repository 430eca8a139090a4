//! A store behind a server: the server itself, and the client's connection without its socket.
//!
//! In: arguments of Python, and bytes of a server. Out: bytes for the server, and answers as Python values.
//! Read `server` with `qmq_options`, then `caller` (one connection), `requests` and `answers`.

pub(crate) mod answers;
pub(crate) mod caller;
pub(crate) mod qmq_options;
pub(crate) mod requests;
pub(crate) mod server;
