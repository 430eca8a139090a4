//! The fields of messages about files: the files of a snapshot or a load, and a place in one of them.
//!
//! Files are a count (`u32`), and for each its path, as a blob, and its length (`u64`). Runs are a count (`u32`), and for each
//! `staged_ms u64 | nonce 16 bytes | length u64 | digest u32 | rows u64`. A place is `0 u8 | number u64 | file u32 | offset u64` in a
//! snapshot, and `1 u8 | staged_ms u64 | nonce 16 bytes | offset u64` in a file of a load.

use bytes::BufMut;

use crate::error::Result;
use crate::record::adopt::LOAD_RUNS_MAX;
use crate::replication::{FilePlace, SentFile, SnapshotFile};
use crate::run::{LoadName, StagedRun};
use crate::units::Millis;
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::Read;
use crate::wire::reader::{Reader, utf8};

/// The most files of a snapshot.
const SNAPSHOT_FILES_MAX: usize = 1 << 20;
/// The longest path of a file of a snapshot, in bytes.
const PATH_BYTES_MAX: usize = 255;
/// The fewest bytes that a file takes in a snapshot.
const FILE_BYTES: usize = 12;
/// The most bytes of a part of a file, without its zeros.
pub(super) const PART_BYTES_MAX: usize = 4 << 20;
/// Bytes of a run.
const RUN_BYTES: usize = 44;

pub(super) fn put_files(out: &mut Vec<u8>, files: &[SnapshotFile]) -> Result<()> {
    put_count(out, "files", SNAPSHOT_FILES_MAX, files.len())?;
    for file in files {
        put_blob(out, "path", PATH_BYTES_MAX, file.path.as_bytes())?;
        out.put_u64(file.length);
    }
    Ok(())
}

pub(super) fn read_files(reader: &mut Reader<'_>) -> Read<Vec<SnapshotFile>> {
    let count = reader.count("files", SNAPSHOT_FILES_MAX, FILE_BYTES)?;
    let mut files = Vec::with_capacity(count);
    for _ in 0..count {
        let path = utf8("path", reader.blob("path", PATH_BYTES_MAX)?)?.to_owned();
        files.push(SnapshotFile { path, length: reader.u64("length")? });
    }
    Ok(files)
}

pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[StagedRun]) -> Result<()> {
    put_count(out, "runs", LOAD_RUNS_MAX, runs.len())?;
    for run in runs {
        put_name(out, &run.name);
        out.put_u64(run.length);
        out.put_u32(run.digest);
        out.put_u64(run.rows);
    }
    Ok(())
}

pub(super) fn read_runs(reader: &mut Reader<'_>) -> Read<Vec<StagedRun>> {
    let count = reader.count("runs", LOAD_RUNS_MAX, RUN_BYTES)?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, length) = (read_name(reader)?, reader.u64("length")?);
        runs.push(StagedRun { name, length, digest: reader.u32("digest")?, rows: reader.u64("rows")? });
    }
    Ok(runs)
}

pub(super) fn put_place(out: &mut Vec<u8>, place: &FilePlace) {
    match &place.file {
        SentFile::Snapshot { number, file } => {
            out.put_u8(0);
            out.put_u64(*number);
            out.put_u32(*file);
        }
        SentFile::Load(name) => {
            out.put_u8(1);
            put_name(out, name);
        }
    }
    out.put_u64(place.offset);
}

pub(super) fn read_place(reader: &mut Reader<'_>) -> Read<FilePlace> {
    let file = if reader.flag("is_of_load")? {
        SentFile::Load(read_name(reader)?)
    } else {
        SentFile::Snapshot { number: reader.u64("number")?, file: reader.u32("file")? }
    };
    Ok(FilePlace { file, offset: reader.u64("offset")? })
}

fn put_name(out: &mut Vec<u8>, name: &LoadName) {
    out.put_u64(name.staged.0);
    out.put_slice(&name.nonce);
}

fn read_name(reader: &mut Reader<'_>) -> Read<LoadName> {
    let staged = Millis(reader.u64("staged_ms")?);
    Ok(LoadName { staged, nonce: reader.array("nonce")? })
}
