//! The totals by minute, and the ended entries of each window, as bytes: parts 16 and 17 of a checkpoint's body, see
//! [`super::snapshot`].

use std::sync::Arc;

use super::codec::{FieldReader, FieldWriter};
use super::window_codec::WindowSnapshot;
use crate::error::Result;
use crate::run::Cell;
use crate::schedule_log::{EndedCells, SavedEnded, Window};
use crate::store::state::forecast::MinuteTotals;
use crate::units::{Minute, SubjectNumber, Tally};

/// Appends the totals of the messages that are due in each minute.
pub(super) fn write_totals(out: &mut FieldWriter, totals: &MinuteTotals) {
    out.count(totals.iter().count());
    for (minute, tally) in totals.iter() {
        out.u32(minute.0);
        out.u64(tally.messages);
        out.u64(tally.bytes);
    }
}

/// Reads the totals of each minute, which must ascend.
pub(super) fn read_totals(from: &mut FieldReader<'_>) -> Result<Vec<(Minute, Tally)>> {
    let mut totals: Vec<(Minute, Tally)> = Vec::new();
    for _ in 0..from.count(20)? {
        let (minute, tally) = (Minute(from.u32()?), Tally { messages: from.u64()?, bytes: from.u64()? });
        if tally.is_empty() || totals.last().is_some_and(|(last, _)| *last >= minute) {
            return Err(from.malformed("a minute behind the one before, with something in it"));
        }
        totals.push((minute, tally));
    }
    Ok(totals)
}

/// Returns the entries that a window's run counts and that are no longer pending. A run that is about to be written
/// counts none of them.
pub(super) fn ended_of(window: &Window) -> SavedEnded {
    let ended = window.ended();
    if window.is_in_memory() { SavedEnded::none(ended.below) } else { ended }
}

/// Appends the ended entries of each window, whose layers must be joined.
pub(super) fn write_ended<'a>(out: &mut FieldWriter, windows: impl ExactSizeIterator<Item = &'a SavedEnded>) {
    out.count(windows.len());
    for SavedEnded { below, cells } in windows {
        out.u32(below.0);
        out.u32(u32::from(cells.is_some()));
        let layers = cells.as_deref().unwrap_or_default();
        debug_assert!(layers.len() < 2, "{} layers of a window are not joined", layers.len());
        out.count(layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.count())));
        for cell in layers.iter().flat_map(|layer| layer.iter(None)) {
            out.u32(cell.subject.0);
            out.u32(cell.minute.0);
            out.u64(cell.tally.messages);
            out.u64(cell.tally.bytes);
        }
    }
}

/// Reads the ended entries of these windows.
pub(super) fn read_ended(from: &mut FieldReader<'_>, windows: &mut [WindowSnapshot]) -> Result<()> {
    if from.count(16)? != windows.len() {
        return Err(from.malformed("what ended of each window"));
    }
    for window in windows {
        let (below, is_known) = (Minute(from.u32()?), from.u32()?);
        let count = from.count(24)?;
        let mut cells: Vec<Cell> = Vec::with_capacity(count);
        for _ in 0..count {
            let (subject, minute) = (SubjectNumber(from.u32()?), Minute(from.u32()?));
            let tally = Tally { messages: from.u64()?, bytes: from.u64()? };
            let cell = Cell { subject, minute, tally };
            if cells.last().is_some_and(|last| last.key() >= cell.key()) {
                return Err(from.malformed("a cell behind the one before"));
            }
            cells.push(cell);
        }
        if is_known > 1 || (is_known == 0 && !cells.is_empty()) {
            return Err(from.malformed("cells where it is known what ended"));
        }
        let layer = Some(EndedCells::of(cells)).filter(|layer| layer.count() > 0).map(Arc::new);
        window.ended = SavedEnded { below, cells: (is_known == 1).then(|| layer.into_iter().collect()) };
    }
    Ok(())
}
