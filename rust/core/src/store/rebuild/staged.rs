//! Checks the runs of the pieces, which are staged or, if an adoption ended before its checkpoint was durable, already
//! in their places. Every byte is read before any file is changed.

use std::sync::Arc;

use super::NAMED_MAX;
use super::plan::RebuildPiece;
use crate::error::{Error, Result};
use crate::run::{RowScan, Run, RunKind, ScanBuffer, ScheduleRow, StagedRun};
use crate::schedule_log::{EntryState, TwoBits};
use crate::storage::Storage;
use crate::store::salvage::payloads::Payloads;
use crate::units::{LocationFile, Sequence};

/// The checked run of a piece.
pub(super) struct CheckedRun {
    pub(super) piece: RebuildPiece,
    pub(super) named: StagedRun,
    pub(super) run: Arc<Run>,
    /// True if the run already has its name in the run folder.
    pub(super) is_in_place: bool,
}

/// Reads the run of a piece completely. It must be the run that the caller named, with one row for each pending message
/// of the piece and no other rows.
///
/// # Errors
/// `MissingFile`, `Corrupt`, `DamagedPayload`, `NewerFormat`, `Storage`; `InvalidArgument` naming `staged` if messages
/// would vanish.
pub(super) fn check_run(
    storage: &dyn Storage,
    stream: &[u8; 16],
    (index, piece): (usize, &RebuildPiece),
    bits: &TwoBits,
    (named, payloads): (&StagedRun, &mut Payloads),
) -> Result<CheckedRun> {
    let (run, is_in_place) = match Run::open_beside(storage, &named.name, piece.run, stream) {
        Err(missing @ Error::MissingFile { .. }) => {
            let run = Run::open(storage, piece.run, RunKind::Schedule, stream).map_err(|error| match error {
                Error::MissingFile { .. } => missing,
                other => other,
            })?;
            (run, true)
        }
        other => (other?, false),
    };
    named.check(&run)?;
    let mut first_error = None;
    run.verify::<ScheduleRow>(&mut |error| {
        first_error.get_or_insert(error);
    });
    if let Some(error) = first_error {
        return Err(error);
    }
    let left = check_rows(&run, bits, payloads)?;
    refuse_vanishing(index, left.pending())?;
    Ok(CheckedRun { piece: *piece, named: *named, run: Arc::new(run), is_in_place })
}

/// Returns an error if pending messages of a piece would be in no run.
///
/// # Errors
/// `InvalidArgument` naming `staged` if there is such a message.
pub(super) fn refuse_vanishing(index: usize, left: impl Iterator<Item = Sequence>) -> Result<()> {
    let mut count = 0_u64;
    let mut named: Vec<String> = Vec::new();
    for sequence in left {
        count = count.saturating_add(1);
        if named.len() < NAMED_MAX {
            named.push(sequence.to_string());
        }
    }
    if count == 0 {
        return Ok(());
    }
    let more = if count > NAMED_MAX as u64 { ", …" } else { "" };
    Err(Error::InvalidArgument {
        argument: "staged",
        expected: format!("a run with each pending message of piece {index}"),
        found: format!("{count} that would vanish, of sequences {}{more}", named.join(", ")),
    })
}

/// Checks the rows of a run, and returns the pending messages without a row.
fn check_rows(run: &Run, bits: &TwoBits, payloads: &mut Payloads) -> Result<TwoBits> {
    let mut left = bits.clone();
    let mut buffer = ScanBuffer::<ScheduleRow>::default();
    let mut scan = RowScan::from_block(run, 0, None, &mut buffer);
    let mut record = Vec::new();
    while let Some(row) = scan.next_row().map_err(|damage| damage.error)? {
        let sequence = row.key.sequence;
        if left.set(sequence, EntryState::Nothing) != EntryState::Pending {
            let expected = "a row for each pending message of the piece, once";
            let offset = Run::block_offset(scan.block());
            return Err(Error::corrupt(run.file().path(), offset, expected, format!("sequence {sequence}")));
        }
        if row.location.file() != LocationFile::Run(run.number()) {
            payloads.read(row.location, row.payload_sequence, &mut record)?;
        }
    }
    Ok(left)
}
