//! Limits of `restart` and `backlog`: reading as many bytes of the same files as the open read, or all of
//! them, newest first; and what makes those reads cold.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::case::{Case, Failure, Figures, rate};
const PIECE: u64 = 1 << 20;

/// The store's files, newest first.
fn files(case: &Case) -> Result<Vec<PathBuf>, Failure> {
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
    Ok(Figures::from([("value", read(case, case.count("read_bytes")?)?.as_secs_f64())]))
}

/// Limit of `backlog`: every byte of the store's files read, in messages a second.
pub(crate) fn all(case: &Case) -> Result<Figures, Failure> {
    Ok(Figures::from([("value", rate(case.count("messages")?, read(case, u64::MAX)?))]))
}

fn read(case: &Case, mut left: u64) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut piece = vec![0_u8; PIECE as usize];
    for path in files(case)? {
        let (file, mut offset) = (File::open(path)?, 0);
        while left > 0 {
            let wanted = piece.get_mut(..usize::try_from(left.min(PIECE)).unwrap_or(0)).unwrap_or_default();
            let read = file.read_at(wanted, offset)?;
            if read == 0 {
                break;
            }
            (offset, left) = (offset + read as u64, left - read as u64);
        }
    }
    Ok(started.elapsed())
}
