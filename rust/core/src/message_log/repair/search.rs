//! Searches after a break for a batch that vouches for the position of the break.

use crate::error::Result;
use crate::message_log::read::batch_check::{Cursor, Scratch, check_records, read_header};
use crate::message_log::read::window::{WINDOW_BYTES, Window};
use crate::record::batch::{BATCH_MAGIC, BatchHeader};
use crate::units::Location;

/// The findings after a break, in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::message_log) struct Behind {
    /// The furthest position that a whole batch there calls synced. Zero if there is none.
    pub(in crate::message_log) vouched: Location,
    /// The offset after the last nonzero byte. 0 if there is none.
    pub(super) content_end: u32,
}

/// Searches the window's segment from `from` on. Batches count only from `batches_from` on: if the break is a
/// batch with a whole header, its records are skipped, because payloads may look like batches. A batch counts
/// if it is whole and its sequence, epoch and trusted time are not before those of the break.
pub(super) fn search_behind(
    window: &mut Window,
    from: u32,
    batches_from: u32,
    broken_at: &Cursor,
    scratch: &mut Scratch,
) -> Result<Behind> {
    let mut behind = Behind::default();
    let mut at = from;
    let mut next_batch = batches_from;
    let mut candidates = Vec::new();
    while at < window.end() {
        let bytes = window.bytes(at, WINDOW_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        candidates.clear();
        if let Some(last) = last_content(bytes) {
            behind.content_end = at.saturating_add(last);
            let marks = bytes.chunks_exact(BATCH_MAGIC.len()).zip((at..).step_by(BATCH_MAGIC.len()));
            candidates.extend(marks.filter(|(mark, _)| **mark == BATCH_MAGIC).map(|(_, offset)| offset));
        }
        for candidate in &candidates {
            if *candidate < next_batch {
                continue;
            }
            if let Some(header) = whole_batch(window, *candidate, broken_at, scratch)? {
                behind.vouched = behind.vouched.max(Location(header.synced.get()));
                next_batch = candidate.saturating_add(header.length.get());
            }
        }
        at = at.saturating_add(taken);
    }
    Ok(behind)
}

/// The offset after the last nonzero byte.
fn last_content(bytes: &[u8]) -> Option<u32> {
    const BLOCK: usize = 4096;
    let blocks = bytes.chunks(BLOCK).enumerate().rev();
    let is_content = |block: &[u8]| block.iter().fold(0, |all, byte| all | *byte) != 0;
    let (number, block) = blocks.into_iter().find(|(_, block)| is_content(block))?;
    let within = block.iter().rposition(|byte| *byte != 0)?;
    u32::try_from(number.saturating_mul(BLOCK).saturating_add(within).saturating_add(1)).ok()
}

fn whole_batch(window: &mut Window, at: u32, broken_at: &Cursor, scratch: &mut Scratch) -> Result<Option<BatchHeader>> {
    let stream = window.stream().id;
    let Ok(header) = read_header(window, at)? else { return Ok(None) };
    let later = header.base_sequence.get() >= broken_at.next_sequence.0
        && header.epoch.get() >= broken_at.epoch.0
        && header.trusted_ms.get() >= broken_at.trusted.0;
    if !later {
        return Ok(None);
    }
    let bytes = window.bytes(at, header.length.get() as usize)?;
    Ok(check_records(bytes, at, &header, &stream, scratch).is_ok().then_some(header))
}
