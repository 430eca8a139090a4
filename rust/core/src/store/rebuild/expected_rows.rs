//! The row that the log says a run must have.

use crate::error::{Error, Result};
use crate::run::ScheduleRow;
use crate::schedule_log::row_of;
use crate::store::rebuild::log_entries::LogRow;

/// What could not be read now is not known to be damaged.
pub(super) fn unless_unread(read: Result<()>) -> Result<std::result::Result<(), Error>> {
    match read {
        Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => Err(error),
        other => Ok(other),
    }
}

/// The row that should be there, as far as the log says, and else as the run has it.
pub(super) fn expected(log: &LogRow, row: &ScheduleRow) -> ScheduleRow {
    if log.is_rooted {
        let expected = row_of(&log.entry);
        return ScheduleRow { size: expected.size.or(row.size), ..expected };
    }
    ScheduleRow { key: log.entry.key(), length: 0, ..*row }
}
