//! Looking at everything that is pending, in no particular order: for who counts, not for who feeds.

use super::bits::EntryState;
use super::entry::Entry;
use super::schedule::Schedule;
use super::window::{Body, Window, entry_of};
use crate::run::{DamagedBlock, RowScan, ScanBuffer, ScheduleRow};

impl Schedule {
    /// Shows each pending entry once. Blocks of runs that cannot be read are told to `damaged`, and
    /// the rest is shown. Reads every run in which something is pending.
    pub fn each_pending(&self, show: &mut dyn FnMut(&Entry), damaged: &mut dyn FnMut(DamagedBlock)) {
        let mut buffer = ScanBuffer::default();
        for window in self.windows.iter().filter(|window| window.pending > 0) {
            each_of_window(window, &mut buffer, show, damaged);
        }
        for entry in self.open.iter().filter(|entry| self.open_bits.get(entry.sequence()) == EntryState::Pending) {
            show(entry);
        }
    }
}

fn each_of_window(
    window: &Window,
    buffer: &mut ScanBuffer<ScheduleRow>,
    show: &mut dyn FnMut(&Entry),
    damaged: &mut dyn FnMut(DamagedBlock),
) {
    let is_pending = |entry: &Entry| window.bits.get(entry.sequence()) == EntryState::Pending;
    match &window.body {
        Body::Empty => {}
        Body::Memory { entries, .. } => entries.iter().filter(|entry| is_pending(entry)).for_each(show),
        Body::Run { run, patches } => {
            let mut scan = RowScan::from_block(run, 0, Some(patches), buffer);
            loop {
                match scan.next_row() {
                    Ok(None) => break,
                    Ok(Some(row)) => {
                        let entry = entry_of(&row);
                        if is_pending(&entry) {
                            show(&entry);
                        }
                    }
                    Err(block) => {
                        damaged(*block);
                        scan.skip_block();
                    }
                }
            }
        }
    }
}
