//! retention.

pub(super) mod file_subjects;
pub(super) mod finished_age;
pub(super) mod floors;
pub(super) mod free_room;
pub(super) mod holders;
pub(super) mod hole_plan;
pub(super) mod hole_punching;
pub(super) mod kept_files;
pub(super) mod pins;
pub(super) mod run_hole_search;
pub(super) mod segment_hole_search;
pub(super) mod stale_loads;
