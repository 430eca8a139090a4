//! Two marks of free disk space. Below the first, a warning is reported. Below the second, messages are
//! refused, so that the rest of the disk stays free for finishing and for other programs.

use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};

/// Once low, free room stays low until it is above the mark by this part of the mark, so that the warning is
/// reported once.
const MARGIN_PART: u64 = 8;

/// The marks, in bytes of free room. 0 means no mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeMarks {
    /// Below this, a warning is reported.
    pub warn_bytes: u64,
    /// Below this, submissions that make the store grow are refused.
    pub refuse_bytes: u64,
}

impl FreeMarks {
    /// True if at least one mark is set.
    pub const fn are_set(self) -> bool {
        self.warn_bytes > 0 || self.refuse_bytes > 0
    }

    /// Checks that the warning is reported before anything is refused.
    ///
    /// # Errors
    /// `InvalidArgument` naming `refuse_free_bytes`.
    pub fn check(self) -> Result<()> {
        if self.warn_bytes == 0 || self.refuse_bytes <= self.warn_bytes {
            return Ok(());
        }
        Err(Error::InvalidArgument {
            argument: "refuse_free_bytes",
            expected: format!("at most warn_free_bytes, which is {}", self.warn_bytes),
            found: self.refuse_bytes.to_string(),
        })
    }
}

/// The change found at a check of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoomChange {
    /// The free room has fallen below the first mark.
    pub is_low_now: bool,
    /// True if growing submissions are refused from now on, false if they are accepted again. `None` if
    /// neither changed.
    pub refuses_now: Option<bool>,
}

/// The free room at the last check of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeRoom {
    marks: FreeMarks,
    free_bytes: Option<u64>,
    /// The last check failed.
    is_unknown: bool,
    is_low: bool,
    refuses: bool,
}

impl FreeRoom {
    /// The state before the first check.
    pub fn new(marks: FreeMarks) -> Self {
        Self { marks, ..Self::default() }
    }

    /// The configured marks.
    pub fn marks(&self) -> FreeMarks {
        self.marks
    }

    /// The free bytes at the last check. `None` before the first check and after a failed one.
    pub fn free_bytes(&self) -> Option<u64> {
        self.free_bytes.filter(|_| !self.is_unknown)
    }

    /// True from below the first mark until well above it.
    pub fn is_low(&self) -> bool {
        self.is_low
    }

    /// The error for submissions that make the store grow, if they are refused.
    pub fn refusal(&self) -> Option<Error> {
        let free_bytes = self.free_bytes.filter(|_| self.refuses)?;
        Some(Error::BelowMark { free_bytes, mark_bytes: self.marks.refuse_bytes })
    }

    /// Notes the free bytes. If they are unknown (`None`), all else stays as it was. The log's own
    /// `spare_bytes`, allocated for future messages, count as free; otherwise a store would refuse messages
    /// because of the segments it prepared.
    pub fn note(&mut self, free_bytes: Option<u64>, spare_bytes: u64) -> RoomChange {
        self.is_unknown = free_bytes.is_none();
        let Some(free_bytes) = free_bytes else { return RoomChange::default() };
        let FreeMarks { warn_bytes, refuse_bytes } = self.marks;
        let (was_low, refused) = (self.is_low, self.refuses);
        let margin = if was_low { warn_bytes / MARGIN_PART } else { 0 };
        self.free_bytes = Some(free_bytes);
        let usable_bytes = free_bytes.saturating_add(spare_bytes);
        self.is_low = usable_bytes < warn_bytes.saturating_add(margin);
        self.refuses = usable_bytes < refuse_bytes || (refused && is_on(Planted::RefusedForGood));
        RoomChange {
            is_low_now: self.is_low && !was_low,
            refuses_now: (self.refuses != refused).then_some(self.refuses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(warn_bytes: u64, refuse_bytes: u64) -> FreeRoom {
        FreeRoom::new(FreeMarks { warn_bytes, refuse_bytes })
    }

    #[test]
    fn what_is_low_is_told_once_until_it_is_well_above_the_mark() {
        let mut room = room(800, 0);
        let told: Vec<bool> =
            [800, 799, 10, 899, 799, 900, 799].into_iter().map(|free| room.note(Some(free), 0).is_low_now).collect();
        assert_eq!(told, [false, true, false, false, false, false, true]);
        assert_eq!((room.is_low(), room.refusal(), room.free_bytes()), (true, None, Some(799)));
    }

    #[test]
    fn messages_are_refused_below_the_second_mark_and_taken_again_at_it() {
        let mut room = room(800, 500);
        assert_eq!(room.note(Some(500), 0).refuses_now, None);
        assert_eq!(room.note(Some(499), 0).refuses_now, Some(true));
        assert_eq!(room.refusal(), Some(Error::BelowMark { free_bytes: 499, mark_bytes: 500 }));
        assert_eq!(room.note(Some(0), 0).refuses_now, None);
        assert_eq!(room.refusal(), Some(Error::BelowMark { free_bytes: 0, mark_bytes: 500 }));
        assert_eq!(room.note(Some(500), 0).refuses_now, Some(false));
        assert_eq!(room.refusal(), None);
    }

    #[test]
    fn without_marks_nothing_is_low_and_nothing_refused() {
        let mut room = room(0, 0);
        assert_eq!((room.note(Some(0), 0), room.is_low(), room.refusal()), (RoomChange::default(), false, None));
        assert!(!room.marks().are_set());
    }

    #[test]
    fn the_second_mark_is_not_above_the_first() {
        let check = |warn_bytes, refuse_bytes| FreeMarks { warn_bytes, refuse_bytes }.check();
        assert_eq!([check(5, 5), check(5, 0), check(0, 9)], [Ok(()), Ok(()), Ok(())]);
        let Err(Error::InvalidArgument { argument, .. }) = check(5, 6) else { panic!("taken") };
        assert_eq!(argument, "refuse_free_bytes");
    }

    #[test]
    fn what_the_log_has_prepared_for_messages_counts_as_free() {
        let mut room = room(800, 500);
        assert_eq!(room.note(Some(400), 100), RoomChange { is_low_now: true, refuses_now: None });
        assert_eq!(room.note(Some(400), 99).refuses_now, Some(true));
        assert_eq!(room.note(None, 100), RoomChange::default());
        assert_eq!(room.free_bytes(), None);
        assert_eq!(room.refusal(), Some(Error::BelowMark { free_bytes: 400, mark_bytes: 500 }), "all stays as it was");
    }
}
