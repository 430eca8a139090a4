//! A snapshot: the files that a node gets instead of a part of the log that the primary no longer has.
//!
//! In, at the primary: a checkpoint, and the files that it needs. Out, at the other node: the same files in the place of its
//! own, or its own as they were. Read `outgoing` (what is sent), then `incoming` (what has come, next to the store's own
//! files) and `adoption` (how it takes their place).
//!
//! Files keep their names, and segments and runs their numbers, so all references in them hold. The last segment is sent up to
//! the end of the log, and the other node goes on in a new one.

pub(in crate::store) mod adoption;
pub(in crate::store) mod incoming;
pub(in crate::store) mod outgoing;
