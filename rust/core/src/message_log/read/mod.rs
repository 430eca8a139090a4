//! read.

pub(super) mod batch_check;
pub(super) mod piece;
pub(super) mod reader;
pub(super) mod salvage_reader;
pub(super) mod window;
