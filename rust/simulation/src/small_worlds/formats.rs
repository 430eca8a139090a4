//! Stores of earlier formats: of what both formats write alike, with the number of the earlier one.

use delaymq_core::storage::MemoryStorage;

/// Bytes of the trailer of a run.
const TRAILER_BYTES: usize = 40;

/// Where a file says its format, and the check that covers it.
struct Stamp {
    format_at: usize,
    covered: std::ops::Range<usize>,
}

/// Writes the number of an earlier format into every file that says its format, with its checks, in every
/// version of it that may survive.
pub(super) fn stamp(storage: &MemoryStorage, format: u32) {
    for (path, before) in storage.image() {
        let mut bytes = before.clone();
        for stamp in stamps_of(&path, bytes.len()) {
            put(&mut bytes, stamp.format_at, format);
            let check = crc32fast::hash(bytes.get(stamp.covered.clone()).unwrap_or_default());
            put(&mut bytes, stamp.covered.end, check);
        }
        for (offset, (old, new)) in before.iter().zip(&bytes).enumerate() {
            if old != new {
                storage.damage(&path, offset as u64, old ^ new);
            }
        }
    }
}

/// Each check stands behind what it covers.
fn stamps_of(path: &str, length: usize) -> Vec<Stamp> {
    let trailer = length.saturating_sub(TRAILER_BYTES);
    match path.split('/').next() {
        Some("identity" | "checkpoints") => vec![Stamp { format_at: 8, covered: 0..60 }],
        Some("log") => vec![Stamp { format_at: 8, covered: 0..48 }],
        Some("runs") => vec![
            Stamp { format_at: 8, covered: 0..4_092 },
            Stamp { format_at: trailer + 24, covered: trailer..trailer + 28 },
        ],
        _ => Vec::new(),
    }
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
