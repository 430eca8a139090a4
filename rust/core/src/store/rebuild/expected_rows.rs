//! The row that a run must have according to the log.

use crate::error::{Error, Result};
use crate::run::ScheduleRow;
use crate::schedule_log::row_of;
use crate::store::rebuild::log_entries::LogRow;

/// Returns an error if the read failed: it is then unknown whether the bytes are damaged.
pub(super) fn unless_unread(read: Result<()>) -> Result<std::result::Result<(), Error>> {
    match read {
        Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => Err(error),
        other => Ok(other),
    }
}

/// Returns the expected row, from the log as far as the log has it, otherwise from the run.
pub(super) fn expected(log: &LogRow, row: &ScheduleRow) -> ScheduleRow {
    if log.is_rooted {
        let expected = row_of(&log.entry);
        return ScheduleRow { size: expected.size.or(row.size), ..expected };
    }
    ScheduleRow { key: log.entry.key(), length: 0, ..*row }
}
