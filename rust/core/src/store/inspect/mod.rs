//! inspect.

pub(super) mod damaged;
pub(super) mod files;
pub(super) mod inspection;
pub(super) mod space;
pub(super) mod verified_runs;
pub(super) mod verify;
