//! Reading batches from segment files.
//!
//! In: segment files and a position. Out: batches whose checks were made by [`batch_check`].
//! Read `window` (one buffer over many segments), then `batch_check`, then `reader` for a sound log, and `shipping` for
//! another copy of it. `piece` and `salvage_reader` read a log that may be damaged: they report what cannot be read and
//! continue after it.

pub(super) mod batch_check;
pub(super) mod piece;
pub(super) mod reader;
pub(super) mod salvage_reader;
pub(super) mod shipping;
pub(super) mod window;
