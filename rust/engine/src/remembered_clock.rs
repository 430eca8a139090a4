//! What an opening knew of the time, kept in the store's file `clock` for the next one, while the machine
//! is not started anew.
//!
//! It is one line: `delaymq clock 1`, the CRC-32 of the rest as eight hexadecimal digits, the trusted time
//! in milliseconds, the boot-time clock in nanoseconds, the kernel's name for this start of the machine,
//! and the time namespace, with spaces between. It is advice: it is never synced, since no stop of the
//! machine leaves it of use, and what cannot be read is not there.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use delaymq_core::clock::Remembered;
use delaymq_core::units::Millis;

use crate::clock::Boot;
use crate::files::FILE_MODE;

pub(crate) const FILE_NAME: &str = "clock";
const HEAD: &str = "delaymq clock 1";

fn path_in(store: &Path) -> PathBuf {
    store.join(FILE_NAME)
}

/// What an opening before knew in this boot.
pub(crate) fn read(store: &Path, boot: &Boot) -> Option<Remembered> {
    let text = fs::read_to_string(path_in(store)).ok()?;
    let (check, rest) = text.strip_prefix(HEAD)?.strip_prefix(' ')?.split_once(' ')?;
    let rest = rest.strip_suffix('\n')?;
    if check != format!("{:08x}", crc32fast::hash(rest.as_bytes())) {
        return None;
    }
    let mut words = rest.splitn(4, ' ');
    let trusted = Millis(words.next()?.parse().ok()?);
    let boot_ns = words.next()?.parse().ok()?;
    let is_this = words.next()? == boot.id && words.next()? == boot.namespace;
    is_this.then_some(Remembered { trusted, boot_ns })
}

/// Keeps what is known now. Where that fails the next opening knows less, and nothing else comes of it.
pub(crate) fn write(store: &Path, boot: &Boot, known: Remembered) {
    let Remembered { trusted, boot_ns } = known;
    let rest = format!("{} {boot_ns} {} {}", trusted.0, boot.id, boot.namespace);
    let text = format!("{HEAD} {:08x} {rest}\n", crc32fast::hash(rest.as_bytes()));
    let (path, temporary) = (path_in(store), store.join(format!("{FILE_NAME}.tmp")));
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&temporary);
    let _kept =
        opened.and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| fs::rename(&temporary, &path));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> Boot {
        Boot { id: "0d2f-77".to_owned(), namespace: "time:[4026531834]".to_owned() }
    }

    const KNOWN: Remembered = Remembered { trusted: Millis(1_700_000_000_123), boot_ns: 987_654_321 };

    #[test]
    fn what_is_kept_is_read_in_the_same_boot_and_in_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path(), &boot()), None);
        write(folder.path(), &boot(), KNOWN);
        assert_eq!(read(folder.path(), &boot()), Some(KNOWN));
        assert_eq!(read(folder.path(), &Boot { id: "0d2f-78".to_owned(), ..boot() }), None);
        assert_eq!(read(folder.path(), &Boot { namespace: String::new(), ..boot() }), None);
    }

    #[test]
    fn what_is_damaged_or_cut_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &boot(), KNOWN);
        let whole = fs::read(path_in(folder.path())).expect("it was written");
        for length in 0..whole.len() {
            fs::write(path_in(folder.path()), &whole[..length]).expect("a file");
            assert_eq!(read(folder.path(), &boot()), None, "the first {length} bytes");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            fs::write(path_in(folder.path()), &damaged).expect("a file");
            assert_eq!(read(folder.path(), &boot()), None, "byte {at}");
        }
    }
}
