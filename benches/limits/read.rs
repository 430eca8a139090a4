//! Limit of `restart`: reading as many bytes of the same files as the open read, newest first; and what makes
//! those reads cold.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::case::{Case, Failure, Figures};
const PIECE: u64 = 1 << 20;

/// The store's files, newest first.
pub(super) fn files(case: &Case) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in ["log", "runs", "checkpoints"] {
        for entry in std::fs::read_dir(case.folder.join(folder))?.flatten() {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Drops the store's pages from the cache; what is dirty is written first.
pub(crate) fn forget(case: &Case) -> Result<Figures, Failure> {
    for file in files(case)?.iter().map(File::open) {
        let file = file?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(std::io::Error::from)?;
    }
    Ok(Figures::new())
}

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (started, mut left) = (Instant::now(), case.count("read_bytes")?);
    for path in files(case)? {
        left -= read(&path, left)?;
    }
    Ok(Figures::from([("value", started.elapsed().as_secs_f64())]))
}

/// Reads a file up to `bytes_max`; how much there was.
pub(super) fn read(path: &Path, bytes_max: u64) -> Result<u64, Failure> {
    let (file, mut offset, mut piece) = (File::open(path)?, 0, vec![0_u8; PIECE as usize]);
    while offset < bytes_max {
        let wanted = piece.get_mut(..usize::try_from((bytes_max - offset).min(PIECE)).unwrap_or(0)).unwrap_or_default();
        match file.read_at(wanted, offset)? {
            0 => break,
            read => offset += read as u64,
        }
    }
    Ok(offset)
}
