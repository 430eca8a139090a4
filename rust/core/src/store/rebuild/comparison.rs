//! Compares a piece, as the log has it, with the rows of the present run. A record is read at both places and must be
//! the same, byte for byte. A message that the log no longer has is kept as the run has it, if it is whole there.

use std::sync::Arc;

use super::basis::Basis;
use super::log_entries::{FromLog, LogRow};
use super::other_copies::{Doubt, Elsewhere};
use crate::error::{Error, Result};
use crate::run::{DamagedBlock, Row, RowScan, Run, ScanBuffer, ScheduleRow, run_path};
use crate::schedule_log::{EntryState, TwoBits, row_of};
use crate::store::rebuild::expected_rows::{expected, unless_unread};
use crate::store::rebuild::finding::RebuildFinding;
use crate::store::salvage::payloads::Payloads;
use crate::units::{Location, RunNumber, Sequence};

/// The maximum number of examples to report.
const EXAMPLES_MAX: usize = 20;

/// The pending messages of a piece, by result. A second row of a message also counts as different.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RebuildCounts {
    /// The number of pending messages.
    pub pending: u64,
    /// The run and the log agree.
    pub same: u64,
    /// The run and the log differ.
    pub different: u64,
    /// The run has no row of the message, so the message would never have been delivered.
    pub missing: u64,
    /// The row or the payload cannot be read, and was found elsewhere.
    pub unreadable: u64,
    /// The log no longer has the message, and the run has it whole.
    pub kept: u64,
    /// No file has the message whole: it would vanish.
    pub vanishing: u64,
}

/// An example of a message with a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuildExample {
    /// The sequence of the message.
    pub sequence: Sequence,
    /// The kind of finding.
    pub finding: RebuildFinding,
    /// A description that names the file.
    pub words: String,
}

/// The result of the comparison of a piece.
pub(super) struct Compared {
    pub(super) counts: RebuildCounts,
    /// The worst examples first.
    pub(super) examples: Vec<RebuildExample>,
    /// A row for each message that does not vanish, by key, pointing to a readable payload.
    pub(super) rows: Vec<ScheduleRow>,
}

pub(super) struct Comparison<'a> {
    basis: &'a Basis,
    log: &'a FromLog,
    old_run: RunNumber,
    payloads: &'a mut Payloads,
    counts: RebuildCounts,
    examples: Vec<RebuildExample>,
    rows: Vec<ScheduleRow>,
    doubts: Vec<Doubt>,
    in_log: Vec<u8>,
    in_run: Vec<u8>,
}

/// Compares the pending messages in `bits` with their rows in the run `old_run`.
///
/// # Errors
/// `NewerFormat`, `Storage`.
pub(super) fn compare(
    basis: &Basis,
    (bits, old_run): (&TwoBits, RunNumber),
    log: &FromLog,
    payloads: &mut Payloads,
) -> Result<Compared> {
    let counts = RebuildCounts { pending: bits.count(EntryState::Pending), ..RebuildCounts::default() };
    let mut comparison = Comparison {
        basis,
        log,
        old_run,
        payloads,
        counts,
        examples: Vec::new(),
        rows: Vec::new(),
        doubts: Vec::new(),
        in_log: Vec::new(),
        in_run: Vec::new(),
    };
    let mut left = bits.clone();
    let damaged = match basis.runs.get(&old_run) {
        Some(run) => comparison.each_row(run, bits, &mut left)?,
        None => Vec::new(),
    };
    comparison.without_rows(&left, &damaged)?;
    comparison.finish()
}

impl Comparison<'_> {
    /// Compares each row of the piece, and marks the row in `left`. Returns the damaged blocks.
    fn each_row(&mut self, run: &Arc<Run>, bits: &TwoBits, left: &mut TwoBits) -> Result<Vec<DamagedBlock>> {
        let mut buffer = ScanBuffer::<ScheduleRow>::default();
        let mut scan = RowScan::from_block(run, 0, None, &mut buffer);
        let mut damaged = Vec::new();
        loop {
            let row = match scan.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(damaged),
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(damage) => {
                    damaged.push(*damage);
                    scan.skip_block();
                    continue;
                }
            };
            let sequence = row.key.sequence;
            if bits.get(sequence) != EntryState::Pending {
                continue;
            }
            if left.set(sequence, EntryState::Nothing) == EntryState::Pending {
                self.row(&row, scan.block())?;
            } else {
                let words = format!("{}: a second row", self.place(scan.block()));
                self.tell(RebuildFinding::Different, sequence, &words);
            }
        }
    }

    /// The place of a block of the present run, in words.
    fn place(&self, block: u32) -> String {
        format!("{} at offset {}", run_path(self.old_run), Run::block_offset(block))
    }

    fn row(&mut self, row: &ScheduleRow, block: u32) -> Result<()> {
        let sequence = row.key.sequence;
        let Some(log) = self.log.get(sequence).copied() else {
            match self.read_in_run(row)? {
                Ok(()) => self.take_kept(*row),
                Err(error) => {
                    let words = error.to_string().into();
                    self.doubt(RebuildFinding::Unreadable, (None, Some(*row)), sequence, &words);
                }
            }
            return Ok(());
        };
        let expected = expected(&log, row);
        let is_in_log = self.read_in_log(&log)?;
        let in_run = if is_in_log && log.entry.location() == row.location {
            self.in_run.clone_from(&self.in_log);
            Ok(())
        } else {
            self.read_in_run(row)?
        };
        let is_same_payload = expected.payload_sequence == row.payload_sequence;
        let finding = match (difference(&log, row), &in_run) {
            (Some(words), _) => Some((RebuildFinding::Different, format!("{}: {words}", self.place(block)))),
            (None, Ok(())) if is_in_log && self.in_log != self.in_run => {
                let words = format!("its record is another one than at {}", log.entry.location());
                Some((RebuildFinding::Different, format!("{}: {words}", self.place(block))))
            }
            (None, Ok(())) => None,
            (None, Err(error)) => Some((RebuildFinding::Unreadable, error.to_string())),
        };
        let is_in_run = in_run.is_ok() && is_same_payload;
        match finding {
            None if is_in_log => {
                self.counts.same = self.counts.same.saturating_add(1);
                self.rows.push(expected);
            }
            None => self.take_kept(*row),
            Some((finding, words)) if is_in_log || is_in_run => {
                let location = if is_in_log { log.entry.location() } else { row.location };
                self.tell(finding, sequence, &words);
                self.rows.push(ScheduleRow { location, ..expected });
            }
            Some((finding, words)) => self.doubt(finding, (Some(log), Some(*row)), sequence, &words.into()),
        }
        Ok(())
    }

    /// Handles the pending messages for which no row was read.
    fn without_rows(&mut self, left: &TwoBits, damaged: &[DamagedBlock]) -> Result<()> {
        let lost: Option<Arc<str>> = self.basis.lost.get(&self.old_run).map(|error| error.to_string().into());
        let none: Arc<str> = format!("{} has no row of it", run_path(self.old_run)).into();
        let damages: Vec<Arc<str>> = damaged.iter().map(|block| block.error.to_string().into()).collect();
        for sequence in left.pending() {
            let log = self.log.get(sequence).copied();
            let key = log.map(|log| row_of(&log.entry).key());
            let covers =
                |block: &DamagedBlock| key.is_none_or(|key| block.from <= key && block.to.is_none_or(|to| key < to));
            let block = damaged.iter().position(covers).and_then(|at| damages.get(at));
            let (finding, words) = match (&lost, block) {
                (Some(words), _) | (None, Some(words)) => (RebuildFinding::Unreadable, words),
                (None, None) => (RebuildFinding::Missing, &none),
            };
            match log {
                Some(log) if log.is_rooted && self.read_in_log(&log)? => {
                    self.tell(finding, sequence, words);
                    self.rows.push(row_of(&log.entry));
                }
                log => self.doubt(finding, (log, None), sequence, words),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Compared> {
        let doubts = std::mem::take(&mut self.doubts);
        let elsewhere = Elsewhere::find(self.basis, &doubts)?;
        for doubt in &doubts {
            if let Some(row) = elsewhere.row_of(doubt, self.payloads)? {
                self.tell(doubt.finding, doubt.sequence, &doubt.words);
                self.rows.push(row);
            } else {
                let in_log = match &self.log.damage {
                    Some(error) => format!("the log has it not, where {error}"),
                    None => "the log has it no more".to_owned(),
                };
                let words = format!("{}; {in_log}", doubt.words);
                self.tell(RebuildFinding::Vanishing, doubt.sequence, &words);
            }
        }
        self.rows.sort_unstable_by_key(|row| row.key);
        self.examples.sort_by_key(|example| (example.finding, example.sequence));
        self.examples.truncate(EXAMPLES_MAX);
        Ok(Compared { counts: self.counts, examples: self.examples, rows: self.rows })
    }

    fn take_kept(&mut self, row: ScheduleRow) {
        self.counts.kept = self.counts.kept.saturating_add(1);
        self.rows.push(ScheduleRow { length: 0, ..row });
    }

    fn doubt(
        &mut self,
        finding: RebuildFinding,
        (log, row): (Option<LogRow>, Option<ScheduleRow>),
        sequence: Sequence,
        words: &Arc<str>,
    ) {
        self.doubts.push(Doubt { sequence, log, row, finding, words: Arc::clone(words) });
    }

    /// Counts a finding, and keeps it as an example while there are few of its kind.
    fn tell(&mut self, finding: RebuildFinding, sequence: Sequence, words: &str) {
        let count = match finding {
            RebuildFinding::Vanishing => &mut self.counts.vanishing,
            RebuildFinding::Missing => &mut self.counts.missing,
            RebuildFinding::Different => &mut self.counts.different,
            RebuildFinding::Unreadable => &mut self.counts.unreadable,
        };
        *count = count.saturating_add(1);
        if *count <= EXAMPLES_MAX as u64 {
            self.examples.push(RebuildExample { sequence, finding, words: words.to_owned() });
        }
    }

    /// Reads the record from the log; false if the log no longer has it, or not whole.
    fn read_in_log(&mut self, log: &LogRow) -> Result<bool> {
        if log.entry.location() == Location::NOWHERE {
            return Ok(false);
        }
        let read = self.payloads.read(log.entry.location(), log.entry.payload_sequence(), &mut self.in_log);
        unless_unread(read).map(|read| read.is_ok())
    }

    fn read_in_run(&mut self, row: &ScheduleRow) -> Result<std::result::Result<(), Error>> {
        if row.location == Location::NOWHERE {
            let expected = format!("the payload of sequence {}", row.payload_sequence);
            return Ok(Err(Error::corrupt(&run_path(self.old_run), 0, expected, "no place of one")));
        }
        unless_unread(self.payloads.read(row.location, row.payload_sequence, &mut self.in_run))
    }
}

/// Returns the first difference between a row and the log, in words.
fn difference(log: &LogRow, row: &ScheduleRow) -> Option<String> {
    let differs = |what: &str, in_log: u64, in_run: u64| {
        (in_log != in_run).then(|| format!("{what} {in_run}, and the log says {in_log}"))
    };
    let entry = &log.entry;
    let due = differs("due at", entry.due().0, row.key.due.0);
    if !log.is_rooted {
        return due;
    }
    let sizes = entry.size().zip(row.size);
    due.or_else(|| differs("of subject", u64::from(entry.subject().0), u64::from(row.subject.0)))
        .or_else(|| differs("the payload of", entry.payload_sequence().0, row.payload_sequence.0))
        .or_else(|| differs("attempt", u64::from(entry.attempt()), u64::from(row.attempt)))
        .or_else(|| sizes.and_then(|(in_log, in_run)| differs("bytes:", u64::from(in_log), u64::from(in_run))))
}
