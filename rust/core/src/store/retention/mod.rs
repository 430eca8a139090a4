//! Retention: which files are still needed, and which disk space is freed.
//!
//! In: the state and both kept checkpoints. Out: files to remove and holes to punch.
//! Read `kept_files` and `removable`, then `finished_age` (how long finished files are kept), then `free_room` with
//! `room_search`. For holes, read `planned_holes`, `hole_plan` with `segment_hole_search` and `run_hole_search`, then
//! `hole_punching`. `floors`, `holders` and `pins` say what needs a file.

pub(super) mod finished_age;
pub(super) mod floors;
pub(super) mod free_room;
pub(super) mod holders;
pub(super) mod hole_plan;
pub(super) mod hole_punching;
pub(super) mod kept_files;
pub(super) mod pins;
pub(super) mod planned_holes;
pub(super) mod removable;
pub(super) mod room_search;
pub(super) mod run_hole_search;
pub(super) mod segment_hole_search;
pub(super) mod stale_loads;
