//! propose.

pub(super) mod due_series;
pub(super) mod idle;
pub(super) mod loaded_postings;
pub(super) mod proposals;
pub(super) mod pull;
pub(super) mod requests;
pub(super) mod settlement;
pub(super) mod step;
