//! Checkpoints: the state of a store as of one position, in one file.
//!
//! In: the state, frozen between two steps. Out: a checkpoint file, new runs, and the list of files that it needs.
//! Read `installation` (the owner freezes its state, and takes the result over), then `work` (the order of the
//! stages), then `file` (header) with `paths`, then `snapshot` (the body, part by part; the `*_codec` modules encode
//! its parts). `merging`, `merge_install` and `ready_runs` write the runs that belong to a checkpoint.

pub(super) mod codec;
pub(super) mod file;
pub(super) mod file_subjects_codec;
pub(super) mod forecast_codec;
pub(super) mod group_codec;
pub(super) mod held_loads;
mod installation;
pub(super) mod log_codec;
pub(super) mod merge_install;
pub(super) mod merging;
pub(super) mod named_files;
pub(super) mod paths;
pub(super) mod ready_runs;
pub(super) mod rewritten;
pub(super) mod snapshot;
pub(super) mod subject_codec;
pub(super) mod window_codec;
pub(super) mod work;
