//! Limit of `restart`: reading as many bytes of the same files as the open read, newest files first;
//! and what makes those reads cold.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::case::{Case, Failure, Figures};

const PIECE: u64 = 1 << 20;

/// The store's files, newest first.
fn files(case: &Case) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in ["log", "runs", "checkpoints"] {
        for entry in std::fs::read_dir(case.folder.join(folder))? {
            let entry = entry?;
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Drops the store's pages from the page cache; what is dirty is written first.
pub(crate) fn forget(case: &Case) -> Result<Figures, Failure> {
    for path in files(case)? {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(std::io::Error::from)?;
    }
    Ok(Figures::new())
}

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let mut left = case.count("read_bytes")?;
    let started = Instant::now();
    let mut piece = vec![0_u8; PIECE as usize];
    for path in files(case)? {
        let (file, mut offset) = (File::open(path)?, 0);
        while left > 0 {
            let wanted = usize::try_from(left.min(PIECE)).unwrap_or(0);
            let read = std::os::unix::fs::FileExt::read_at(&file, piece.get_mut(..wanted).unwrap_or_default(), offset)?;
            if read == 0 {
                break;
            }
            (offset, left) = (offset + read as u64, left - read as u64);
        }
    }
    Ok(Figures::from([("value", started.elapsed().as_secs_f64())]))
}
