//! Rows that only the state at the end of a log has: pending messages, and ready ones that some group has not finished.

use delaymq_core::error::Result;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{Owner, ReadyCursor, ReadyPiece};
use delaymq_core::units::{ReadyNumber, Sequence, SubjectNumber};

use crate::read::ready_numbers::Numbering;
use crate::rows::row_batches::Gathered;

/// Shows ready messages that some group has not finished and whose ready facts are not in the log, by subject and
/// number. If the numbers at the beginning of the log are unknown, these cannot be told apart from the others.
/// Fails with `Storage`.
pub(crate) fn each_older_ready(
    owner: &Owner,
    numbering: &Numbering,
    sink: &mut Gathered,
    show: &mut dyn FnMut(SubjectNumber, u64, Entry),
) -> Result<()> {
    for subject in owner.state().subjects.iter().map(|(number, _)| number) {
        if let Some(end) = numbering.first_of(subject) {
            each_unfinished(owner, (subject, ReadyNumber(end)), sink, show)?;
        }
    }
    Ok(())
}

/// Shows what is ready of a subject below a number and not behind what all groups have finished.
/// Fails with `Storage`.
pub(crate) fn each_unfinished(
    owner: &Owner,
    (subject, end): (SubjectNumber, ReadyNumber),
    sink: &mut Gathered,
    show: &mut dyn FnMut(SubjectNumber, u64, Entry),
) -> Result<()> {
    let mut cursor = ReadyCursor::new(subject, owner.state().dispatch.listed_from(subject), end);
    loop {
        let entries = match owner.look_at_ready(&mut cursor) {
            ReadyPiece::End => return Ok(()),
            ReadyPiece::Entries(entries) => entries,
            ReadyPiece::Load(load) => {
                let read = load.read()?;
                sink.damages.extend(read.error);
                read.entries
            }
        };
        for (number, entry) in entries {
            show(subject, number.0, entry);
        }
    }
}

/// Shows what is pending of facts below a sequence.
pub(crate) fn each_pending_below(owner: &Owner, end: Sequence, sink: &mut Gathered, show: &mut dyn FnMut(&Entry)) {
    let mut is_below = |entry: &Entry| {
        if entry.sequence() < end {
            show(entry);
        }
    };
    owner.state().schedule.each_pending(&mut is_below, &mut |damaged| sink.damage(damaged.error));
}
