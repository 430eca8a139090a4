//! The consumers that are switched off, in a small file that survives a restart.
//!
//! Its first line is `delaymq switched off 1` and the CRC-32 of the rest, as eight hexadecimal digits. Each further
//! line has a client id, a subject and a group, separated by tabs, which no name contains.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::wire::qmq::registry::ConsumerKey;

const HEAD: &str = "delaymq switched off 1 ";
/// More than the largest file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads the consumers that are switched off; none if there is no file.
/// Fails with `Corrupt` if the file is not what was written; `Storage`.
pub(crate) fn read(path: &Path) -> Result<BTreeSet<ConsumerKey>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed("open", path, &error)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| failed("read", path, &error))?;
    let corrupt = |expected: &str, found: String| Error::Corrupt {
        path: path.display().to_string(),
        offset: 0,
        expected: expected.to_owned(),
        found,
    };
    let (head, rows) = text.split_once('\n').unwrap_or((&text, ""));
    let expected = format!("{HEAD}{:08x}", crc32fast::hash(rows.as_bytes()));
    if head != expected {
        return Err(corrupt(&expected, head.chars().take(80).collect()));
    }
    let key = |row: &str| match row.split('\t').collect::<Vec<_>>().as_slice() {
        [client_id, subject, group] => Ok(ConsumerKey {
            client_id: (*client_id).to_owned(),
            subject: (*subject).to_owned(),
            group: (*group).to_owned(),
        }),
        _ => Err(corrupt("a client id, a subject and a group", row.chars().take(80).collect())),
    };
    rows.lines().map(key).collect()
}

/// Writes the consumers that are switched off, durably. The old file stays until the new one is complete.
/// Fails with `Storage`.
pub(crate) fn write(path: &Path, keys: &BTreeSet<ConsumerKey>) -> Result<()> {
    let mut rows = String::new();
    for key in keys {
        // Writing to a string does not fail.
        let _ = writeln!(rows, "{}\t{}\t{}", key.client_id, key.subject, key.group);
    }
    let text = format!("{HEAD}{:08x}\n{rows}", crc32fast::hash(rows.as_bytes()));
    let fresh = fresh(path);
    put(&fresh, text.as_bytes()).map_err(|error| failed("write", &fresh, &error))?;
    fs::rename(&fresh, path).map_err(|error| failed("rename", &fresh, &error))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed("sync", folder, &error))
}

fn fresh(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn failed(operation: &'static str, path: &Path, error: &io::Error) -> Error {
    let fault = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageFault::NoSpace,
        ErrorKind::PermissionDenied => StorageFault::PermissionDenied,
        ErrorKind::NotFound => StorageFault::NotFound,
        _ => StorageFault::Io,
    };
    Error::Storage { operation, path: path.display().to_string(), fault, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client_id: &str) -> ConsumerKey {
        ConsumerKey { client_id: client_id.to_owned(), subject: "order".to_owned(), group: "g".to_owned() }
    }

    #[test]
    fn what_is_written_is_read_and_what_was_changed_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switched_off");
        assert_eq!(read(&path), Ok(BTreeSet::new()));
        for keys in [BTreeSet::from([key("host@@1"), key("*"), key("ä")]), BTreeSet::new(), BTreeSet::from([key("a")])]
        {
            write(&path, &keys).unwrap();
            assert_eq!(read(&path), Ok(keys));
        }
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            for bad in [good[at] ^ 1, b'\n', 0xFF] {
                let mut changed = good.clone();
                changed[at] = bad;
                fs::write(&path, &changed).unwrap();
                assert!(changed == good || read(&path).is_err(), "{at} {bad}");
            }
            fs::write(&path, &good[..at]).unwrap();
            assert!(matches!(read(&path), Err(Error::Corrupt { .. })), "cut at {at}");
        }
        fs::write(&path, format!("{HEAD}{:08x}\na\tb\n", crc32fast::hash(b"a\tb\n"))).unwrap();
        assert!(matches!(read(&path), Err(Error::Corrupt { .. })));
        assert!(matches!(write(&folder.path().join("none/file"), &BTreeSet::new()), Err(Error::Storage { .. })));
    }
}
