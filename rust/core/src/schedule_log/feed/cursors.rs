//! The feed's position in each run.

use std::collections::HashMap;

use super::gather::Gather;
use crate::run::{DamagedBlock, Patches, RowScan, Run, ScanBuffer, ScheduleRow};
use crate::schedule_log::schedule::Schedule;
use crate::schedule_log::window::{Body, Window, due_key_of, entry_of};
use crate::units::{DueKey, Millis, RunNumber, Sequence};

/// Blocks that are prefetched ahead of a cursor.
const AHEAD_BLOCKS: u32 = 16;
/// Rows of other subjects that one gathering skips, over all runs, before it is cut. 64 Ki rows take about a
/// millisecond.
const PASSED_MAX: usize = 1 << 16;
/// Rows of other subjects that one gathering may skip in each run, however many runs there are.
const PASSED_OF_RUN_MIN: usize = 1 << 10;
/// Rows that are due later than this after a slice are not prefetched with it, in milliseconds.
const AHEAD_MS_MAX: u64 = 10_000;

/// A place in a run. Every row before it is at or below the feed's position.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// The block from which reading continues.
    block: u32,
    next: Next,
    /// The first block that was neither read nor prefetched.
    asked: u32,
}

/// The row at a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The row must be read.
    Unknown,
    /// A row with this key.
    Row(DueKey),
    /// The end of the run.
    End,
}

/// Cursors by run.
#[derive(Debug, Default)]
pub(in crate::schedule_log) struct Cursors {
    places: HashMap<RunNumber, Cursor>,
    buffer: ScanBuffer<ScheduleRow>,
}

impl Cursor {
    /// The place before all rows.
    fn first_of(run: &Run) -> Self {
        let next = run.first_key().map_or(Next::End, |first| Next::Row(first.due_key()));
        Self { block: 0, next, asked: 0 }
    }

    /// Prefetches the first blocks of the following slices if the next row is due by `until`. Loading a slice
    /// holds the owner, and should then not wait for the disk.
    fn ask_ahead(&mut self, run: &Run, until: Millis) {
        let is_near = matches!(self.next, Next::Row(key) if key.due <= until);
        let end = self.block.saturating_add(AHEAD_BLOCKS).min(run.block_count());
        if is_near && self.asked < end && self.asked < self.block.saturating_add(AHEAD_BLOCKS / 2) {
            run.prefetch(self.asked, end.saturating_sub(self.asked));
            self.asked = end;
        }
    }
}

/// The change of a cursor by one gathering. It takes effect when the slice is accepted.
struct Moved {
    run: RunNumber,
    before: Cursor,
    after: Cursor,
    /// The last row that was offered, if any.
    last: Option<DueKey>,
}

/// The changes of cursors that take effect when a slice is accepted.
#[derive(Default)]
pub(in crate::schedule_log) struct Moves {
    moved: Vec<Moved>,
}

impl Cursors {
    /// Forgets all places, because the feed's position went back.
    pub(in crate::schedule_log) fn clear(&mut self) {
        self.places.clear();
    }

    /// Accepts a slice that ends with `to`. Runs that offered rows above `to` are read again from their
    /// previous place.
    pub(super) fn accept(&mut self, moves: Moves, to: DueKey) {
        for Moved { run, before, after, last } in moves.moved {
            self.places.insert(run, if last.is_some_and(|last| last > to) { before } else { after });
        }
    }

    /// Bytes of memory, about.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        self.places.capacity().saturating_mul(size_of::<Cursor>().saturating_add(16))
    }

    /// Offers `gather` the rows of a run in its range.
    fn gather_run(
        &mut self,
        window: &Window,
        run: &Run,
        patches: &Patches<ScheduleRow>,
        gather: &mut Gather,
        passed_max: usize,
        moves: &mut Moves,
    ) -> Result<(), Box<DamagedBlock>> {
        let known = self.places.get(&run.number()).copied();
        let next = known.map_or(Cursor::first_of(run).next, |known| known.next);
        if match next {
            Next::Row(key) => key > gather.to(),
            Next::End => true,
            Next::Unknown => false,
        } {
            return Ok(());
        }
        let above = after(gather.from());
        let mut scan = match known {
            Some(known) => RowScan::from_block(run, known.block, Some(patches), &mut self.buffer),
            None => RowScan::from_key(run, above.into(), Some(patches), &mut self.buffer)?,
        };
        while scan.peek()?.is_some_and(|row| due_key_of(&row) < above) {
            scan.advance();
        }
        let first_block = scan.block();
        let mut next = Next::End;
        let mut last = None;
        let passed_end = gather.passed().saturating_add(passed_max);
        while let Some(row) = scan.peek()? {
            let key = due_key_of(&row);
            if key > gather.to() {
                next = Next::Row(key);
                break;
            }
            gather.offer(entry_of(&row), window.bits());
            last = Some(key);
            scan.advance();
            if gather.passed() >= passed_end {
                gather.cut_to(key);
            }
        }
        let asked = known.map_or(0, |known| known.asked).max(scan.block().saturating_add(1));
        let before = Cursor { block: first_block, next: Next::Unknown, asked };
        let after = Cursor { block: scan.block(), next, asked };
        moves.moved.push(Moved { run: run.number(), before, after, last });
        Ok(())
    }
}

impl Schedule {
    /// Offers `gather` all pending entries in its range, from every run and from memory.
    pub(in crate::schedule_log) fn gather(
        &mut self,
        gather: &mut Gather,
        cursors: &mut Cursors,
    ) -> Result<Moves, Box<DamagedBlock>> {
        let mut moves = Moves::default();
        let runs = self.windows.iter().filter(|window| window.pending > 0 && window.run().is_some()).count();
        let passed_max = (PASSED_MAX / runs.max(1)).max(PASSED_OF_RUN_MIN);
        for window in self.windows.iter_mut().filter(|window| window.pending > 0) {
            if let Body::Memory { entries, index } = &mut window.body {
                index.gather(entries, &window.bits, gather);
            }
            if let Body::Run { run, patches } = &window.body {
                cursors.gather_run(window, run, patches, gather, passed_max, &mut moves)?;
            }
        }
        self.open_index.gather(&self.open, &self.open_bits, gather);
        if cursors.places.len() > runs.saturating_mul(2).saturating_add(16) {
            let kept = |number: &RunNumber| {
                self.windows.iter().any(|window| window.run().is_some_and(|run| run.number() == *number))
            };
            cursors.places.retain(|number, _| kept(number));
        }
        Ok(moves)
    }

    /// Prefetches the first blocks of each run's next slices, after a slice from `from` to `to` was accepted.
    pub(super) fn ask_ahead(&self, from: DueKey, to: DueKey, cursors: &mut Cursors) {
        let until = to.due.plus(to.due.since(from.due).min(AHEAD_MS_MAX));
        for window in self.windows.iter().filter(|window| window.pending > 0) {
            if let Body::Run { run, .. } = &window.body {
                cursors.places.entry(run.number()).or_insert_with(|| Cursor::first_of(run)).ask_ahead(run, until);
            }
        }
    }
}

/// The first key above `key`.
pub(in crate::schedule_log) fn after(key: DueKey) -> DueKey {
    match key.sequence.0.checked_add(1) {
        Some(sequence) => DueKey { due: key.due, sequence: Sequence(sequence) },
        None => DueKey { due: key.due.next(), sequence: Sequence(0) },
    }
}

/// The last key below `key`.
pub(in crate::schedule_log) fn before(key: DueKey) -> DueKey {
    match (key.sequence.0.checked_sub(1), key.due.0.checked_sub(1)) {
        (Some(sequence), _) => DueKey { due: key.due, sequence: Sequence(sequence) },
        (None, Some(due)) => DueKey::end_of(Millis(due)),
        (None, None) => DueKey::START,
    }
}
