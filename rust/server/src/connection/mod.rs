//! Connections: sockets, and the bytes between them and the core's state machine.
//!
//! In: accepted sockets. Out: requests for `requests`, and answers on the wire.
//! Read `listener` and `host` (who has them), then `peer` (one connection and its task, with its parts in `peer/`), `quota` (how many connections
//! there may be) and `sockets` (their options).

pub(crate) mod host;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod quota;
pub(crate) mod sockets;
