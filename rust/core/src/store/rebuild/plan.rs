//! The plan of a rebuild: the pieces to rebuild as of the newest checkpoint.

use std::sync::Arc;

use super::basis::{Basis, newest_checkpoint};
use crate::error::{Error, Result};
use crate::message_log::Identity;
use crate::run::{STAGED_ROWS_MAX, list_runs};
use crate::schedule_log::{EntryState, TwoBits};
use crate::storage::Storage;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::checkpoint_path;
use crate::store::checkpoint::window_codec::WindowSnapshot;
use crate::store::salvage::storage::PatientStorage;
use crate::units::{RunNumber, Sequence};

/// The first bytes of a plan.
const PLAN_MAGIC: &[u8; 16] = b"DMQREBUILDPLAN01";
/// Bytes of a piece in a plan.
const PIECE_BYTES: usize = 24;
/// The number of sequences whose states are in one word.
const SEQUENCES_OF_WORD: u32 = 32;

/// A range of sequences whose run is rebuilt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildPiece {
    /// The first sequence.
    pub first: Sequence,
    /// The number of sequences; at least one of them is pending.
    pub sequences: u64,
    /// The run that has the rows now.
    pub old_run: RunNumber,
    /// The number of the run that may replace it.
    pub run: RunNumber,
}

impl RebuildPiece {
    /// The sequence after its last.
    pub(super) fn end(&self) -> Sequence {
        self.first.plus(self.sequences)
    }
}

/// A window with pending messages that is in no piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptWindow {
    /// The first sequence.
    pub first: Sequence,
    /// The number of sequences.
    pub sequences: u64,
    /// Why the run stays as it is.
    pub why: String,
    /// Why the run cannot be opened, if it cannot: then no file has these messages.
    pub damage: Option<String>,
}

/// The pieces to rebuild as of one checkpoint. A process with the bytes of a plan can rebuild a piece on any machine
/// that has the store's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuildPlan {
    pub(super) stream: [u8; 16],
    /// The checkpoint and the check of its body; `None` if the store has no checkpoint, and so no run.
    pub(super) checkpoint: Option<(u32, u32)>,
    pub(super) pieces: Vec<RebuildPiece>,
}

impl RebuildPlan {
    /// The number of the plan's checkpoint; `None` if the store has none.
    pub fn checkpoint(&self) -> Option<u32> {
        self.checkpoint.map(|(number, _)| number)
    }

    /// The pieces, by sequence.
    pub fn pieces(&self) -> &[RebuildPiece] {
        &self.pieces
    }

    /// The plan as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.array(PLAN_MAGIC);
        out.array(&self.stream);
        let (number, check) = self.checkpoint.unwrap_or_default();
        out.u32(number);
        out.u32(check);
        out.count(self.pieces.len());
        for piece in &self.pieces {
            out.u64(piece.first.0);
            out.u64(piece.sequences);
            out.u32(piece.old_run.0);
            out.u32(piece.run.0);
        }
        let check = crc32fast::hash(&out.bytes);
        out.u32(check);
        out.bytes
    }

    /// Reads the bytes that [`Self::to_bytes`] returned.
    ///
    /// # Errors
    /// `InvalidArgument` naming `plan`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refused = || refused_plan("the bytes of a plan", format!("{} other bytes", bytes.len()));
        let (checked, check) = bytes.split_last_chunk::<4>().ok_or_else(refused)?;
        if crc32fast::hash(checked) != u32::from_le_bytes(*check) {
            return Err(refused());
        }
        Self::decode(&mut FieldReader::new("plan", checked)).map_err(|_| refused())
    }

    fn decode(from: &mut FieldReader<'_>) -> Result<Self> {
        if from.array()? != *PLAN_MAGIC {
            return Err(from.malformed("a plan"));
        }
        let stream = from.array()?;
        let (number, check) = (from.u32()?, from.u32()?);
        let mut pieces: Vec<RebuildPiece> = Vec::new();
        for _ in 0..from.count(PIECE_BYTES)? {
            let (first, sequences) = (Sequence(from.u64()?), from.u64()?);
            pieces.push(RebuildPiece {
                first,
                sequences,
                old_run: RunNumber(from.u32()?),
                run: RunNumber(from.u32()?),
            });
        }
        from.end()?;
        Ok(Self { stream, checkpoint: (number > 0).then_some((number, check)), pieces })
    }

    /// The piece with this index.
    ///
    /// # Errors
    /// `InvalidArgument` naming `index`.
    pub(super) fn piece(&self, index: u32) -> Result<&RebuildPiece> {
        self.pieces.get(index as usize).ok_or_else(|| Error::InvalidArgument {
            argument: "index",
            expected: format!("one of the {} pieces of the plan, from 0", self.pieces.len()),
            found: index.to_string(),
        })
    }

    /// Reads the plan's checkpoint again.
    ///
    /// # Errors
    /// `InvalidArgument` naming `plan` if the plan is of another store or its checkpoint is gone; `Storage`.
    pub(super) fn read_again(&self, storage: &dyn Storage, identity: &Identity) -> Result<ReadCheckpoint> {
        let (number, check) = self.of_store(identity)?;
        match read_checkpoint(storage, &identity.stream, number) {
            Ok(read) if read.check == check => Ok(read),
            Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) if !error.is_not_found() => Err(error),
            _ => Err(plan_again(number, "it is gone")),
        }
    }

    /// The number of the plan's checkpoint, and the check of its body.
    ///
    /// # Errors
    /// `InvalidArgument` naming `plan` if the plan is of another store or has no checkpoint.
    pub(super) fn of_store(&self, identity: &Identity) -> Result<(u32, u32)> {
        if self.stream != identity.stream.id {
            return Err(refused_plan("a plan of this store", "one of another store".to_owned()));
        }
        self.checkpoint.ok_or_else(|| refused_plan("a plan of a checkpoint", "one without".to_owned()))
    }
}

pub(super) fn refused_plan(expected: &str, found: String) -> Error {
    Error::InvalidArgument { argument: "plan", expected: expected.to_owned(), found }
}

/// The error if the store has a newer checkpoint than the plan.
pub(super) fn plan_again(number: u32, found: &str) -> Error {
    let expected = format!("a plan as of the newest checkpoint, and this one is as of {}", checkpoint_path(number));
    refused_plan(&expected, format!("{found}: plan again"))
}

/// The states of the sequences of a piece as of the checkpoint.
///
/// # Errors
/// `InvalidArgument` naming `plan` if the checkpoint has no such piece.
pub(super) fn bits_of(windows: &[WindowSnapshot], piece: &RebuildPiece) -> Result<TwoBits> {
    let at = windows.partition_point(|window| window.bits.first() <= piece.first).checked_sub(1);
    let window = at.and_then(|at| windows.get(at)).filter(|window| window.run == Some(piece.old_run));
    let bits = window.and_then(|window| window.bits.part(piece.first, piece.sequences));
    bits.ok_or_else(|| refused_plan("pieces of the checkpoint's windows", format!("one from {} on", piece.first)))
}

/// Plans the rebuild of all schedule runs in which the newest readable checkpoint has pending messages, in pieces of at
/// most `piece_sequences`. Missing or damaged runs are no error. Loaded runs stay as they are, since the log only has
/// the facts that adopted them.
///
/// # Errors
/// `InvalidArgument` naming `piece_sequences` unless it is a multiple of 32 up to [`STAGED_ROWS_MAX`]. `Corrupt` if
/// there are checkpoints and none can be read; `TooLarge` naming `pieces` if run numbers are exhausted; `NewerFormat`,
/// `Storage`.
pub fn plan_rebuild(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    piece_sequences: u32,
) -> Result<(RebuildPlan, Vec<KeptWindow>)> {
    check_sequences(piece_sequences)?;
    let storage: Arc<dyn Storage> = Arc::new(PatientStorage::new(storage));
    let stream = identity.stream;
    let Some(read) = newest_checkpoint(storage.as_ref(), &stream)? else {
        return Ok((RebuildPlan { stream: stream.id, checkpoint: None, pieces: Vec::new() }, Vec::new()));
    };
    let above = list_runs(storage.as_ref())?.last().map_or(RunNumber(1), |last| last.next());
    let basis = Basis::of(&storage, stream, read)?;
    let mut next = basis.read.snapshot.next_run.max(above);
    let (mut pieces, mut kept) = (Vec::new(), Vec::new());
    for window in &basis.read.snapshot.windows {
        let Some(old_run) = window.run.filter(|_| window.bits.count(EntryState::Pending) > 0) else { continue };
        if basis.read.files.loads.contains_key(&old_run) {
            kept.push(kept_window(&basis, window, old_run));
        } else {
            cut(&window.bits, old_run, u64::from(piece_sequences), &mut next, &mut pieces);
        }
    }
    if next > RunNumber::END {
        let found = u64::from(next.0);
        return Err(Error::TooLarge { argument: "pieces", limit: u64::from(RunNumber::END.0), found });
    }
    let checkpoint = Some((basis.read.number, basis.read.check));
    Ok((RebuildPlan { stream: stream.id, checkpoint, pieces }, kept))
}

fn check_sequences(piece_sequences: u32) -> Result<()> {
    if piece_sequences > 0 && piece_sequences <= STAGED_ROWS_MAX && piece_sequences.is_multiple_of(SEQUENCES_OF_WORD) {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        argument: "piece_sequences",
        expected: format!("a multiple of {SEQUENCES_OF_WORD} up to {STAGED_ROWS_MAX}"),
        found: piece_sequences.to_string(),
    })
}

fn kept_window(basis: &Basis, window: &WindowSnapshot, run: RunNumber) -> KeptWindow {
    let why = format!("run {run} was loaded, and the log has no more of it than its name");
    let damage = basis.lost.get(&run).map(Error::to_string);
    KeptWindow { first: window.bits.first(), sequences: window.bits.len(), why, damage }
}

/// Adds the pieces of a window that have pending messages.
fn cut(bits: &TwoBits, old_run: RunNumber, sequences: u64, next: &mut RunNumber, pieces: &mut Vec<RebuildPiece>) {
    let mut first = bits.first();
    while first < bits.end() {
        let count = sequences.min(bits.end().since(first));
        let is_pending = bits.part(first, count).is_some_and(|part| part.pending().next().is_some());
        if is_pending {
            pieces.push(RebuildPiece { first, sequences: count, old_run, run: *next });
            *next = next.next();
        }
        first = first.plus(count);
    }
}
