//! Cuts the log behind a fact: later facts were never committed, and the other copies do not have them.
//!
//! All facts that are cut are first kept in a file, durably. Then later segments are removed, the last one first, and the
//! segment of the cut is replaced by a copy of its first part, as in a repair. A cut that stops at any point can be done
//! again. Until then, the log ends at the cut, or at the end of one of the later batches.

use std::sync::Arc;

use super::scan_end::{LaterSegment, ScanEnd, ScanStart};
use super::tail_scan::Survey;
use super::{create_anew, make_aside, repair, repair_by, set_tail_aside};
use crate::error::{Error, Result};
use crate::message_log::append::preparing::TEMPORARY_SUFFIX;
use crate::message_log::holes::Holes;
use crate::message_log::position::LogPosition;
use crate::message_log::read::batch_check::Cursor;
use crate::message_log::read::reader::BatchReader;
use crate::message_log::segment::{ASIDE_FOLDER, LOG_FOLDER, Stream, list_segments};
use crate::planted::{Planted, is_on};
use crate::storage::Storage;
use crate::units::{Epoch, SegmentNumber, Sequence};

/// The last fact that stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPoint {
    /// Its epoch. 0 if nothing stays.
    pub epoch: Epoch,
    /// Its sequence, with which a batch ends. 0 if nothing stays.
    pub sequence: Sequence,
    /// The last sequence that is known to be committed.
    pub committed: Sequence,
}

/// The log after a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Where it ends.
    pub position: LogPosition,
    /// The number of the segment to begin next.
    pub next_segment: SegmentNumber,
    /// The file with all batches that were cut, one after the other. `None` if there was nothing to cut.
    pub evidence: Option<String>,
}

/// Cuts the log behind `point`. No one may have the log open for writing. `start` is where the log is read from: a place
/// before the cut and after all holes, as a checkpoint's.
///
/// # Errors
/// `InvalidArgument` naming `committed` if committed facts would be cut, or naming `sequence` if no batch ends with that
/// epoch and sequence; nothing was changed. `Corrupt`, `MissingFile`, and those of the storage.
pub fn cut_after(storage: &Arc<dyn Storage>, stream: Stream, start: &ScanStart, point: &CutPoint) -> Result<Cut> {
    if point.sequence < point.committed {
        return Err(committed(point, point.committed.to_string()));
    }
    let ending = Survey::run(storage, stream, start, &Holes::default())?;
    let mut reader = BatchReader::new(Arc::clone(storage), stream, start.location, ending.end);
    let position = find(&mut reader, start, point)?;
    let Some((first, _)) = reader.next_header()? else {
        let repaired = repair(storage.as_ref(), stream, &ending, ending.epoch)?;
        return Ok(Cut { position, next_segment: repaired.next_segment, evidence: None });
    };
    if first < ending.committed {
        return Err(committed(point, format!("a position in the log up to {}", ending.committed)));
    }
    let evidence = keep_evidence(storage, stream, &position, &ending)?;
    if let Some(torn) = &ending.torn {
        set_tail_aside(storage.as_ref(), torn, torn.start.segment().unwrap_or_default(), ending.epoch)?;
    }
    let end = end_at(storage.as_ref(), &position, &ending)?;
    let repaired = repair_by(storage.as_ref(), stream, &end, end.epoch, is_on(Planted::CutInPlace))?;
    Ok(Cut { position, next_segment: repaired.next_segment, evidence: Some(evidence) })
}

fn committed(point: &CutPoint, found: String) -> Error {
    let expected = format!("nothing committed behind sequence {}", point.sequence);
    Error::InvalidArgument { argument: "committed", expected, found }
}

/// Reads to the end of the batch that ends with the last fact that stays.
fn find(reader: &mut BatchReader, start: &ScanStart, point: &CutPoint) -> Result<LogPosition> {
    let mut cursor = start.cursor();
    while cursor.next_sequence <= point.sequence
        && let Some((location, header)) = reader.next_header()?
    {
        cursor = Cursor { location, ..cursor }.after(&header);
    }
    let (epoch, next_sequence) = (cursor.epoch, cursor.next_sequence);
    if (epoch, next_sequence) == (point.epoch, point.sequence.next()) {
        return Ok(cursor.position());
    }
    let expected = format!("the last sequence of a batch of epoch {}", point.epoch);
    let last = next_sequence.0.saturating_sub(1);
    let found = format!("{}, where a batch of epoch {epoch} ends with {last}", point.sequence);
    Err(Error::InvalidArgument { argument: "sequence", expected, found })
}

/// Copies the batches behind a position into a file. Its name says what is in it, so a file that has the name already,
/// of a cut that was stopped, is the same.
fn keep_evidence(storage: &Arc<dyn Storage>, stream: Stream, cut: &LogPosition, ending: &ScanEnd) -> Result<String> {
    let (first, last) = (cut.next_sequence, ending.next_sequence.0.saturating_sub(1));
    let name = format!("divergent-{}-{first}-{last}-{:08x}", ending.epoch, ending.chain);
    let path = format!("{ASIDE_FOLDER}/{name}");
    make_aside(storage.as_ref())?;
    if !storage.list(ASIDE_FOLDER)?.contains(&name) {
        let temporary = format!("{LOG_FOLDER}/{name}{TEMPORARY_SUFFIX}");
        let file = create_anew(storage.as_ref(), &temporary)?;
        let mut reader = BatchReader::new(Arc::clone(storage), stream, cut.end, ending.end);
        let mut at = 0_u64;
        while let Some(batch) = reader.next_batch()? {
            file.write_at(at, &batch.bytes)?;
            at = at.saturating_add(batch.bytes.len() as u64);
            reader.recycle(batch.bytes);
        }
        file.sync_data()?;
        storage.rename(&temporary, &path)?;
    }
    storage.sync_folder(ASIDE_FOLDER)?;
    Ok(path)
}

/// The end that a repair is to give the log. The evidence has the batches of later segments, so these need not be set
/// aside; a segment that the scan could not read is.
fn end_at(storage: &dyn Storage, position: &LogPosition, ending: &ScanEnd) -> Result<ScanEnd> {
    let segment = position.end.segment().unwrap_or_default();
    let unread = |number| ending.later_segments.iter().any(|later| later.number == number && later.has_content);
    let later = list_segments(storage)?.into_iter().filter(|number| *number > segment);
    let later_segments = later.map(|number| LaterSegment { number, has_content: unread(number) }).collect();
    Ok(ScanEnd {
        end: position.end,
        sealed: false,
        torn: None,
        chain: position.chain,
        next_sequence: position.next_sequence,
        epoch: position.epoch,
        trusted: position.trusted,
        later_segments,
        ..ending.clone()
    })
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
