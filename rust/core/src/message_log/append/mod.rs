//! append.

pub(super) mod appender;
pub(super) mod commit;
pub(super) mod durability;
pub(super) mod free_room;
pub(super) mod preparing;
pub(super) mod room;
pub(super) mod submission;
