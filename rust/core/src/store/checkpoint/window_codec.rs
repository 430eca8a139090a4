//! The windows of the schedule in a checkpoint: part 7 of its body, see [`super::snapshot`].

use crate::error::Result;
use crate::planted::{self, Planted};
use crate::schedule_log::{EntryState, SavedEnded, TwoBits};
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{RunNumber, Sequence};

/// One window of the schedule, as of the position.
#[derive(Clone, Debug)]
pub(in crate::store) struct WindowSnapshot {
    pub(in crate::store) bits: TwoBits,
    pub(in crate::store) run: Option<RunNumber>,
    /// The entries that the cells of that run count and that are no longer pending.
    pub(in crate::store) ended: SavedEnded,
}

/// Whether the windows say that the message of a sequence is pending.
pub(super) fn is_pending(windows: &[WindowSnapshot], sequence: Sequence) -> bool {
    let behind = windows.partition_point(|window| window.bits.end() <= sequence);
    windows.get(behind).is_some_and(|window| window.bits.get(sequence) == EntryState::Pending)
}

pub(super) fn write_windows(out: &mut FieldWriter, windows: &[WindowSnapshot]) {
    out.count(windows.len());
    for window in windows {
        out.u64(window.bits.first().0);
        out.u64(window.bits.len());
        out.u32(window.run.unwrap_or_default().0);
        for word in window.bits.words() {
            out.u64(if planted::is_on(Planted::CancelledBitNotSaved) { forget_cancelled(word) } else { word });
        }
    }
}

/// A planted fault: cancelled is saved as pending.
fn forget_cancelled(word: u64) -> u64 {
    let cancelled = word & (word >> 1) & 0x5555_5555_5555_5555;
    word & !(cancelled << 1)
}

/// Reads the windows, which must be in the order of their sequences, and below the next sequence.
pub(super) fn read_windows(from: &mut FieldReader<'_>, next: Sequence) -> Result<Vec<WindowSnapshot>> {
    let mut windows: Vec<WindowSnapshot> = Vec::new();
    for _ in 0..from.count(20)? {
        let (first, length) = (Sequence(from.u64()?), from.u64()?);
        let run = from.u32()?;
        let words = length.div_ceil(32);
        let mut bits = Vec::new();
        for _ in 0..words {
            bits.push(from.u64()?);
        }
        let Some(bits) = TwoBits::from_words(first, length, &bits) else {
            return Err(from.malformed("the bits of a window"));
        };
        let least = windows.last().map_or(Sequence(0), |before| before.bits.end());
        if first < least || first.0.checked_add(length).is_none_or(|end| end > next.0) {
            return Err(from.malformed("a window behind the one before and below the next sequence"));
        }
        let run = (run > 0).then_some(RunNumber(run));
        windows.push(WindowSnapshot { bits, run, ended: SavedEnded::default() });
    }
    Ok(windows)
}
