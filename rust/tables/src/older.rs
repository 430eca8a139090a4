//! What is older than the log and not finished: pending, or ready since before the log begins.

use delaymq_core::error::Result;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{Owner, ReadyCursor, ReadyPiece};
use delaymq_core::units::{ReadyNumber, Sequence, SubjectNumber};

use crate::numbers::Numbering;
use crate::rows::Gathered;

/// Shows what is ready and not behind what all groups have finished, whose ready facts are not in the log: by subject
/// and number. Where numbers are not known from the beginning of the log on, it cannot be told from the rest.
///
/// # Errors
/// `Storage`.
pub(crate) fn each_older_ready(
    owner: &Owner,
    numbering: &Numbering,
    sink: &mut Gathered,
    show: &mut dyn FnMut(SubjectNumber, u64, Entry),
) -> Result<()> {
    for subject in owner.state().subjects.iter().map(|(number, _)| number) {
        let Some(end) = numbering.first_of(subject) else { continue };
        let first = owner.state().dispatch.finished_below(subject);
        let mut cursor = ReadyCursor::new(subject, first, ReadyNumber(end));
        loop {
            let entries = match owner.look_at_ready(&mut cursor) {
                ReadyPiece::End => break,
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
    Ok(())
}

/// Shows what is pending whose facts are not in the log.
pub(crate) fn each_older_pending(
    owner: &Owner,
    log_first: Sequence,
    sink: &mut Gathered,
    show: &mut dyn FnMut(&Entry),
) {
    let mut is_older = |entry: &Entry| {
        if entry.sequence() < log_first {
            show(entry);
        }
    };
    owner.state().schedule.each_pending(&mut is_older, &mut |damaged| sink.damage(damaged.error));
}
