//! Merging of neighbouring windows into one run.
//!
//! In: the windows of a schedule. Out: a plan, and then a new run that replaces the old runs.
//! Read `merging` (which windows are merged), then `merge_writer` (writes the run piece by piece), then `payload_copies`.

pub(super) mod merge_writer;
pub(super) mod merging;
pub(super) mod payload_copies;
