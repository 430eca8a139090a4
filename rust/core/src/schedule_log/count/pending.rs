//! Visits all pending entries, in no particular order. This is for counts, not for the feed.

use std::collections::BTreeMap;

use crate::run::{DamagedBlock, RowScan, ScanBuffer, ScheduleRow};
use crate::schedule_log::entry::Entry;
use crate::schedule_log::schedule::Schedule;
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::schedule_log::window::{Body, Window, entry_of};
use crate::units::Sequence;

impl Schedule {
    /// Shows each pending entry once. Unreadable blocks of runs are reported to `damaged`, and the rest is
    /// shown. Reads every run that has pending entries.
    pub fn each_pending(&self, show: &mut dyn FnMut(&Entry), damaged: &mut dyn FnMut(DamagedBlock)) {
        let mut buffer = ScanBuffer::default();
        let mut moved = self.unresolved();
        for window in &self.windows {
            if window.pending > 0 || moved.range(window.first()..window.end()).next().is_some() {
                each_of_run(window, &mut moved, &mut buffer, show, damaged);
            }
        }
        self.each_in_memory(&mut |entry| {
            if entry.origin().is_none() {
                show(entry);
            }
        });
        for entry in moved.into_values().flatten() {
            show(&entry.with_payload_of(None));
        }
    }

    /// Shows each pending entry that is in memory, resolved or not.
    pub fn each_in_memory(&self, show: &mut dyn FnMut(&Entry)) {
        for window in self.windows.iter().filter(|window| window.pending > 0) {
            if let Body::Memory { entries, .. } = &window.body {
                entries.iter().filter(|entry| is_pending(&window.bits, entry)).for_each(&mut *show);
            }
        }
        self.open.iter().filter(|entry| is_pending(&self.open_bits, entry)).for_each(show);
    }
}

fn is_pending(bits: &TwoBits, entry: &Entry) -> bool {
    bits.get(entry.sequence()) == EntryState::Pending
}

/// Shows the pending entries of a window's run, and the moved entries that have their origin there.
fn each_of_run(
    window: &Window,
    moved: &mut BTreeMap<Sequence, Vec<Entry>>,
    buffer: &mut ScanBuffer<ScheduleRow>,
    show: &mut dyn FnMut(&Entry),
    damaged: &mut dyn FnMut(DamagedBlock),
) {
    let Body::Run { run, patches } = &window.body else { return };
    let mut scan = RowScan::from_block(run, 0, Some(patches), buffer);
    loop {
        match scan.next_row() {
            Ok(None) => break,
            Ok(Some(row)) => {
                let entry = entry_of(&row);
                if is_pending(&window.bits, &entry) {
                    show(&entry);
                }
                for moved in moved.remove(&entry.sequence()).into_iter().flatten() {
                    show(&moved.with_payload_of(Some(entry)));
                }
            }
            Err(block) => {
                damaged(*block);
                scan.skip_block();
            }
        }
    }
}
