//! checkpoint.

pub(super) mod codec;
pub(super) mod file;
pub(super) mod forecast_codec;
pub(super) mod group_codec;
pub(super) mod log_codec;
pub(super) mod merging;
pub(super) mod named_files;
pub(super) mod ready_runs;
pub(super) mod snapshot;
pub(super) mod subject_codec;
pub(super) mod work;
