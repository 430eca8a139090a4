//! The totals by minute, and what ended of each window, as bytes: the last two parts of a checkpoint's
//! body, see [`super::snapshot`].

use std::sync::Arc;

use super::codec::{FieldReader, FieldWriter};
use super::forecast::MinuteTotals;
use super::snapshot::WindowSnapshot;
use crate::error::Result;
use crate::schedule_log::{EndedCells, SavedEnded, Window};
use crate::units::{Minute, SubjectNumber, Tally};

/// Appends what is due in each minute.
pub(super) fn write_totals(out: &mut FieldWriter, totals: &MinuteTotals) {
    out.count(totals.iter().count());
    for (minute, tally) in totals.iter() {
        out.u32(minute.0);
        out.u64(tally.messages);
        out.u64(tally.bytes);
    }
}

/// Reads what is due in each minute; minutes ascend.
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

/// What a window's run counts and is pending no more; one that is about to be written counts nothing of it.
pub(super) fn ended_of(window: &Window) -> SavedEnded {
    let ended = window.ended();
    if window.is_in_memory() { SavedEnded { cells: Some(Arc::default()), ..ended } } else { ended }
}

/// Appends what ended of each window.
pub(super) fn write_ended<'a>(out: &mut FieldWriter, windows: impl ExactSizeIterator<Item = &'a SavedEnded>) {
    out.count(windows.len());
    for SavedEnded { below, cells } in windows {
        out.u32(below.0);
        out.u32(u32::from(cells.is_some()));
        let none = EndedCells::new();
        let cells = cells.as_deref().unwrap_or(&none);
        out.count(cells.len());
        for ((subject, minute), tally) in cells {
            out.u32(subject.0);
            out.u32(minute.0);
            out.u64(tally.messages);
            out.u64(tally.bytes);
        }
    }
}

/// Reads what ended of each of these windows.
pub(super) fn read_ended(from: &mut FieldReader<'_>, windows: &mut [WindowSnapshot]) -> Result<()> {
    if from.count(16)? != windows.len() {
        return Err(from.malformed("what ended of each window"));
    }
    for window in windows {
        let (below, is_known) = (Minute(from.u32()?), from.u32()?);
        let mut cells = EndedCells::new();
        let mut last = None;
        for _ in 0..from.count(24)? {
            let key = (SubjectNumber(from.u32()?), Minute(from.u32()?));
            let tally = Tally { messages: from.u64()?, bytes: from.u64()? };
            if last.is_some_and(|last| last >= key) {
                return Err(from.malformed("a cell behind the one before"));
            }
            last = Some(key);
            cells.insert(key, tally);
        }
        if is_known > 1 || (is_known == 0 && !cells.is_empty()) {
            return Err(from.malformed("cells where it is known what ended"));
        }
        window.ended = SavedEnded { below, cells: (is_known == 1).then(|| Arc::new(cells)) };
    }
    Ok(())
}
