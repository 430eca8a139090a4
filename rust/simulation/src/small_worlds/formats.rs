//! Stores of earlier formats: those that builds of that time have written, and what today's build writes
//! just as they did, with the number of the earlier format.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::storage::{MemoryStorage, Storage};

/// Whole stores, each as the last build that wrote its format has left it: groups, runs, two checkpoints,
/// what is pending, held, given back and cancelled, and a tail behind the newest checkpoint. That of format 1
/// has no group that began at the latest: its checkpoints do not say where a group began.
pub(super) const OF_FORMAT_1: &str = include_str!("../../../../tests/golden/stores/format_1.hex");
pub(super) const OF_FORMAT_2: &str = include_str!("../../../../tests/golden/stores/format_2.hex");
/// That of format 7 may have holes in its segments.
pub(super) const OF_FORMAT_7: &str = include_str!("../../../../tests/golden/stores/format_7.hex");
/// That of format 6 knows whose messages its files have.
pub(super) const OF_FORMAT_6: &str = include_str!("../../../../tests/golden/stores/format_6.hex");
/// That of format 5 has keys, ids, moves and what recurs.
pub const OF_FORMAT_5: &str = include_str!("../../../../tests/golden/stores/format_5.hex");
/// That of format 4.
pub const OF_FORMAT_4: &str = include_str!("../../../../tests/golden/stores/format_4.hex");
pub(super) const OF_FORMAT_3: &str = include_str!("../../../../tests/golden/stores/format_3.hex");

/// Bytes of a line of a golden text.
const GOLDEN_LINE_BYTES: usize = 32;
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

/// Lays the files of a golden store on this disk, durably.
pub fn lay(storage: &MemoryStorage, golden: &str) -> Result<()> {
    let mut folders = vec![""];
    let files = files_of(golden);
    for folder in files.keys().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder) {
        if !folders.contains(&folder) {
            storage.create_folder(folder)?;
            folders.push(folder);
        }
    }
    for (path, bytes) in &files {
        let file = storage.create(path)?;
        file.write_at(0, bytes)?;
        file.sync_data()?;
    }
    folders.into_iter().try_for_each(|folder| storage.sync_folder(folder))
}

/// The files of a golden text: a line with the path of each, then its bytes, as `tests/golden` has them.
fn files_of(golden: &str) -> BTreeMap<&str, Vec<u8>> {
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut path = "";
    for line in golden.lines() {
        if let Some(named) = line.strip_prefix("# path: ") {
            path = named;
            continue;
        }
        let bytes = files.entry(path).or_default();
        if let Some(lines) = line.strip_prefix("* ") {
            let zeros = lines.parse::<usize>().unwrap_or_default().saturating_mul(GOLDEN_LINE_BYTES);
            bytes.resize(bytes.len().saturating_add(zeros), 0);
        } else {
            let digits = |at: usize| line.get(at..at.saturating_add(2));
            let pairs = (0..line.len()).step_by(2).filter_map(digits);
            bytes.extend(pairs.filter_map(|digits| u8::from_str_radix(digits, 16).ok()));
        }
    }
    files
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}
