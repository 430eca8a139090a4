//! One run of ready messages, sorted by (subject, number).

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::run::{BLOCK_ROWS, DispatchRow, RowKey, RowScan, Run, ScanBuffer, SubjectRange};
use crate::schedule_log::Entry;
use crate::units::{DueKey, ReadyNumber, SubjectNumber};

/// The result of reading postings.
#[derive(Clone, Debug, Default)]
pub struct ReadPostings {
    /// The entries that were read, by number, ascending.
    pub entries: Vec<(ReadyNumber, Entry)>,
    /// Requested numbers whose rows cannot be read.
    pub damaged: Vec<ReadyNumber>,
    /// The first error.
    pub error: Option<Error>,
}

impl ReadPostings {
    /// Forgets the numbers below this one.
    pub(crate) fn forget_below(&mut self, number: ReadyNumber) {
        let below = self.entries.partition_point(|(one, _)| *one < number);
        self.entries.drain(..below);
        self.damaged.retain(|one| *one >= number);
    }
}

/// A run, with the numbers of each subject in it.
#[derive(Clone, Debug)]
pub struct DispatchRun {
    run: Arc<Run>,
}

impl DispatchRun {
    pub(super) fn new(run: Arc<Run>) -> Self {
        Self { run }
    }

    /// The run's file.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The subjects in it, ascending, with their numbers, which are dense.
    pub fn ranges(&self) -> &[SubjectRange] {
        self.run.subjects()
    }

    /// How many numbers of the subject the run has from `number` on. Zero if it does not have `number`.
    pub fn count_from(&self, subject: SubjectNumber, number: ReadyNumber) -> u64 {
        let ranges = self.ranges();
        let range = ranges.binary_search_by_key(&subject, |range| range.subject).ok().and_then(|at| ranges.get(at));
        range
            .filter(|range| range.first <= number && number <= range.last)
            .map_or(0, |range| range.last.next().since(number))
    }
}

/// Reads up to `count` postings of a subject from `first` on. All of them must be in the run. Slow.
///
/// # Errors
/// `Storage` if the run could not be read. Damaged rows are listed in the answer.
pub fn read_postings(run: &Run, subject: SubjectNumber, first: ReadyNumber, count: u64) -> Result<ReadPostings> {
    let mut found = ReadPostings::default();
    let end = RowKey::ready(subject, first.plus(count));
    let start = RowKey::ready(subject, first);
    let mut buffer = ScanBuffer::<DispatchRow>::default();
    let (from, blocks) = blocks_of(run, subject, first, count).unwrap_or((run.first_block(start), 1));
    let mut scan = RowScan::from_block(run, from, None, &mut buffer).going_on_for(blocks);
    loop {
        match scan.peek() {
            Ok(Some(row)) if RowKey::ready(row.subject, row.number) >= end => break,
            Ok(Some(row)) => {
                if RowKey::ready(row.subject, row.number) >= start {
                    found.entries.push((row.number, entry_of(&row)));
                }
                scan.advance();
            }
            Ok(None) => break,
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Err(damage) => {
                let past = damage.from >= end;
                found.error.get_or_insert(damage.error);
                if past {
                    break;
                }
                scan.skip_block();
            }
        }
    }
    let mut expected = first;
    let mut damaged = Vec::new();
    for number in found.entries.iter().map(|(number, _)| *number).chain([first.plus(count)]) {
        while expected < number {
            damaged.push(expected);
            expected = expected.next();
        }
        expected = number.next();
    }
    found.damaged = damaged;
    Ok(found)
}

/// Prefetches postings that will be read soon, without waiting for the disk.
pub fn prefetch_postings(run: &Run, subject: SubjectNumber, first: ReadyNumber, count: u64) {
    if let Some((from, blocks)) = blocks_of(run, subject, first, count) {
        run.prefetch(from, blocks);
    }
}

/// The first block that has one of `count` numbers of a subject from `first` on, and the number of these
/// blocks. `None` if there are none. The numbers of a subject are dense, so the footer is enough to know
/// this.
pub(super) fn blocks_of(run: &Run, subject: SubjectNumber, first: ReadyNumber, count: u64) -> Option<(u32, u32)> {
    let mut before = 0_u64;
    for range in run.subjects() {
        if range.subject == subject {
            let is_there = count > 0 && (range.first..=range.last).contains(&first);
            let row = before.saturating_add(first.since(range.first));
            let rows = BLOCK_ROWS as u64;
            let last = row.saturating_add(count.saturating_sub(1)) / rows;
            let blocks = last.saturating_sub(row / rows).saturating_add(1);
            return is_there.then_some((u32::try_from(row / rows).ok()?, u32::try_from(blocks).ok()?));
        }
        before = before.saturating_add(range.rows);
    }
    None
}

fn entry_of(row: &DispatchRow) -> Entry {
    let key = DueKey { due: row.due, sequence: row.sequence };
    Entry::new(key, row.attempt, row.payload_sequence, row.location, row.subject)
}

/// The row of a ready message.
pub fn row_of(number: ReadyNumber, entry: &Entry) -> DispatchRow {
    DispatchRow {
        subject: entry.subject(),
        number,
        attempt: entry.attempt(),
        sequence: entry.sequence(),
        payload_sequence: entry.payload_sequence(),
        location: entry.location(),
        due: entry.due(),
    }
}
