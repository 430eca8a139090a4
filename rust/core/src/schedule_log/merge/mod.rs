//! merge.

pub(super) mod merge_writer;
pub(super) mod merging;
pub(super) mod payload_copies;
