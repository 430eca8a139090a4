//! A file as the log prepares it: its blocks written with zeros, so that writing it later changes no
//! metadata.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PIECE: usize = 64 << 10;

/// Makes a file of `bytes` zeros, durable.
pub(crate) fn zeroed(path: &Path, bytes: u64) -> std::io::Result<File> {
    let file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
    let piece = vec![0_u8; PIECE];
    let mut offset = 0;
    while offset < bytes {
        file.write_all_at(&piece, offset)?;
        offset = offset.saturating_add(PIECE as u64);
    }
    file.sync_all()?;
    Ok(file)
}
