//! The helper thread: work that no message waits for, in small pieces with pauses.
//!
//! In: what retention and checkpoints of the core ask for. Out: prepared segments, checkpoints, disk space given back.
//! Read `thread` (the loop, and checkpoints), then `segment_preparation`, `space_release` (files removed, holes
//! punched), `free_room` (how much of the disk is free), `write_stall` (publishes that wait for a checkpoint) and `pacing`.

pub(crate) mod free_room;
pub(crate) mod pacing;
pub(crate) mod segment_preparation;
pub(crate) mod space_release;
pub(crate) mod thread;
pub(crate) mod write_stall;
